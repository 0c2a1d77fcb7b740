// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// childAttributes: a group of its own, so that a Ctrl-C at the terminal or a
// kill reaches the whole of it and nothing else; and death with the supervisor,
// however that comes.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startTime is when a process began, in the kernel's ticks since boot.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the command in parentheses and may hold anything.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	fields := bytes.Fields(rest)
	const state, start = 0, 19 // fields 3 and 22 of proc(5)
	if !ok || len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat: unknown format", pid)
	}
	if string(fields[state]) == "Z" {
		return "", errors.New("the process is a zombie")
	}
	return string(fields[start]), nil
}
