package peertest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// TestMain also acts as the program that starts another process and waits.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "parent" {
		cmd := exec.Command("sleep", "600")
		cmd.Stdout = os.Stdout // the reader gets EOF when the last process that has it open ends
		if err := Start(cmd); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for range 3 { // the end of a thread must not end the process
			done := make(chan bool)
			go func() { runtime.LockOSThread(); close(done) }()
			<-done
		}
		if os.Args[2] == "stopped" {
			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println(cmd.Process.Pid)
		select {}
	}
	os.Exit(m.Run())
}

// TestStartedProcessEndsWithUs kills a process; the process that it had started must
// end, too.
func TestStartedProcessEndsWithUs(t *testing.T) {
	for _, how := range []string{"running", "stopped"} {
		t.Run(how, func(t *testing.T) {
			parent := exec.Command("/proc/self/exe", "parent", how)
			out, err := parent.StdoutPipe()
			if err == nil {
				err = parent.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			pid, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("it prints %q: %v", pid, err)
			}
			if _, err := os.Stat("/proc/" + pid[:len(pid)-1]); err != nil {
				t.Fatalf("it prints %q: %v", pid, err)
			}
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, lines); err != nil { // returns when no process has the other end open
				t.Fatal(err)
			}
			_ = parent.Wait()
		})
	}
}
