// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"

	"github.com/chromedp/chromedp"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// FindChromium returns the browser's path; empty: there is none on this machine.
func FindChromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Browser returns a context in which chromedp drives the browser of a path, without a window. It takes any certificate: the controller's is
// of its own making. stop ends it.
func Browser(ctx context.Context, path string) (browser context.Context, stop func()) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("ignore-certificate-errors", true))
	ctx, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, stopBrowser := chromedp.NewContext(ctx)
	return browser, func() {
		stopBrowser()
		stopAllocator()
	}
}

// ServePage starts `dovetail ui` about a sandbox and returns the page's address, which it prints, and its process. stop ends it.
func ServePage(ctx context.Context, s *sandbox.Sandbox) (url string, pid int, stop func(), err error) {
	_, bin, err := sandbox.Binaries()
	if err != nil {
		return "", 0, nil, err
	}
	cmd := exec.CommandContext(ctx, bin, "ui", "--address", "127.0.0.1:0", "--kubeconfig", s.Kubeconfig(sandbox.Admin))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		stop()
		return "", 0, nil, errors.Join(errors.New("dovetail ui printed nothing"), lines.Err())
	}
	if url = regexp.MustCompile(`http://\S+`).FindString(lines.Text()); url == "" {
		stop()
		return "", 0, nil, fmt.Errorf("dovetail ui printed no address: %s", lines.Text())
	}
	return url, cmd.Process.Pid, stop, nil
}
