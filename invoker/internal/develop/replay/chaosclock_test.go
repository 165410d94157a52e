package replay

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// A process reads the time from the vDSO, a page of the kernel in its own memory, so a
// preloaded library cannot step its clock, and a time namespace has no separate wall
// clock. For a single process, the clock can be stepped where the Go runtime calls the
// vDSO: the runtime keeps the address of the function in a variable. An invoker under
// test replaces that address by a few instructions of ours, which call the function and
// add a number of seconds to the wall clock. The number is in a file that both processes
// share. The monotonic clock stays true, as when an administrator steps the clock.

// clockVariable names the file to an invoker under test.
const clockVariable = "GPUWHISK_CHAOS_CLOCK"

// errNoClock is of a machine on which the clock cannot be stepped.
var errNoClock = errors.New("the clock of a process cannot be stepped here")

// clock is the file, mapped.
type clock []byte

func openClock(path string) (clock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(8); err != nil {
		return nil, err
	}
	return syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// step has the processes that follow this clock be wrong by so much, by one store.
func (c clock) step(by time.Duration) {
	*(*int64)(unsafe.Pointer(&c[0])) = int64(by / time.Second)
}

func (c clock) close() { _ = syscall.Munmap(c) }

// followClock has this process follow the clock of a file.
func followClock(path string) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: it takes linux/amd64", errNoClock)
	}
	c, err := openClock(path)
	if err != nil {
		return err
	}
	real, where, err := findTime()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoClock, err)
	}
	code, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoClock, err)
	}
	copy(code, stepping(real, uint64(uintptr(unsafe.Pointer(&c[0])))))
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoClock, err)
	}
	defer memory.Close()
	own := binary.LittleEndian.AppendUint64(nil, uint64(uintptr(unsafe.Pointer(&code[0]))))
	if _, err = memory.WriteAt(own, int64(where)); err != nil {
		return fmt.Errorf("%w: %w", errNoClock, err)
	}
	return nil
}

// tryClock follows a clock and steps it.
func tryClock(path string) error {
	if err := followClock(path); err != nil {
		return err
	}
	c, err := openClock(path)
	if err != nil {
		return err
	}
	defer c.close()
	before := time.Now().Unix()
	c.step(time.Hour)
	after := time.Now().Unix()
	c.step(0)
	if after-before < 3600 {
		return fmt.Errorf("%w: it did not follow", errNoClock)
	}
	return nil
}

// stepping is int clock_gettime(clockid_t id, struct timespec *to) for x86-64:
// the real one, and then seconds more where id is CLOCK_REALTIME.
func stepping(real, seconds uint64) []byte {
	code := []byte{
		0x57,                   // push rdi
		0x56,                   // push rsi
		0x48, 0x83, 0xec, 0x08, // sub rsp, 8
		0x48, 0xb8, // mov rax, real
	}
	code = binary.LittleEndian.AppendUint64(code, real)
	code = append(code,
		0xff, 0xd0, // call rax
		0x48, 0x83, 0xc4, 0x08, // add rsp, 8
		0x5e,       // pop rsi
		0x5f,       // pop rdi
		0x85, 0xff, // test edi, edi
		0x75, 0x10, // jnz the end
		0x48, 0xb9, // mov rcx, seconds
	)
	code = binary.LittleEndian.AppendUint64(code, seconds)
	return append(code,
		0x48, 0x8b, 0x09, // mov rcx, [rcx]
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	)
}

// findTime finds the vDSO's function, and where in the data of this program its
// address is kept: the only eight bytes there with this value.
func findTime() (real, where uint64, err error) {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, 0, err
	}
	defer memory.Close()
	maps, err := mappings()
	if err != nil {
		return 0, 0, err
	}
	for _, m := range maps {
		if m.name == "[vdso]" {
			if real, err = vdsoTime(io.NewSectionReader(memory, int64(m.from), int64(m.to-m.from)), m.from); err != nil {
				return 0, 0, err
			}
		}
	}
	if real == 0 {
		return 0, 0, errors.New("no vDSO")
	}
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	want, found, end := binary.LittleEndian.AppendUint64(nil, real), 0, uint64(0)
	for _, m := range maps {
		// The zero-initialised data is in an unnamed mapping after the last part of the
		// file.
		ours := m.name == self || m.name == "" && m.from == end
		if ours {
			end = m.to
		}
		if !ours || !strings.HasPrefix(m.mode, "rw") {
			continue
		}
		data := make([]byte, m.to-m.from)
		if _, err := memory.ReadAt(data, int64(m.from)); err != nil {
			return 0, 0, err
		}
		for at := 0; at+8 <= len(data); at += 8 {
			if bytes.Equal(data[at:at+8], want) {
				where = m.from + uint64(at)
				found++
			}
		}
	}
	if found != 1 {
		return 0, 0, fmt.Errorf("%d places have the address of the vDSO's clock", found)
	}
	return real, where, nil
}

func vdsoTime(image io.ReaderAt, base uint64) (uint64, error) {
	f, err := elf.NewFile(image)
	if err != nil {
		return 0, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return base + s.Value, nil
		}
	}
	return 0, errors.New("the vDSO has no clock")
}

// mapping is a part of this process's memory.
type mapping struct {
	from, to   uint64
	mode, name string
}

func mappings() (all []mapping, err error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		m := mapping{mode: fields[1], name: strings.Join(fields[5:], " ")}
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to); err == nil {
			all = append(all, m)
		}
	}
	return all, nil
}
