// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package supervise

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes: a group of its own. There is no death with the parent here;
// children of a killed supervisor are found and ended by `down` and `up`.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// startTime is when a process began, as ps writes it.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("ask ps for process %d: %w", pid, err)
	}
	stat, started, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if stat == "" || strings.HasPrefix(stat, "Z") {
		return "", errors.New("the process is gone")
	}
	return strings.TrimSpace(started), nil
}
