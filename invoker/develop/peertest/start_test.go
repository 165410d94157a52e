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

// TestMain lets the test's program be one that starts another and waits.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "parent" {
		cmd := exec.Command("sleep", "600")
		cmd.Stdout = os.Stdout // its reader sees the end of the last process that holds it
		if err := Start(cmd); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for range 3 { // threads that end are no reason
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

// TestStartedProcessEndsWithUs kills a process, and what it had started goes, too.
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
			if _, err := io.Copy(io.Discard, lines); err != nil { // ends when no process holds the other end
				t.Fatal(err)
			}
			_ = parent.Wait()
		})
	}
}
