// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command pictures takes the screenshots of the documentation: it starts a sandbox with about 60 nodes and several kinds of
// problems, and captures views of `dovetail ui` in light and dark themes. `make pictures` runs it. Start reading at main.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/ui"
)

func main() {
	out := flag.String("out", "docs", "Directory that the pictures are written to")
	views := flag.String("views", "nodes,doctor", "Views of the page to capture, separated by commas")
	width := flag.Int64("width", 1440, "Width of the pictures in pixels")
	command := flag.String("exec", "", "Shell command to run before the sandbox is stopped. $PAGE is the page's address, $SANDBOX the sandbox's directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, strings.Split(*views, ","), *width, *command); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, views []string, width int64, command string) (err error) {
	path := ui.FindChromium()
	if path == "" {
		return errors.New("Chromium is not installed; on Debian: apt-get install chromium")
	}
	dir, err := os.MkdirTemp("", "dovetail-pictures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := sandbox.Up(ctx, filepath.Join(dir, "shop-production"), "--boot", "1s", "--pull", "0s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	if err := fill(ctx, s); err != nil {
		return fmt.Errorf("fill the sandbox: %w", err)
	}
	url, _, stopPage, err := ui.ServePage(ctx, s)
	if err != nil {
		return err
	}
	defer stopPage()
	if err := shrink(ctx, s); err != nil { // while the page records its curves
		return fmt.Errorf("scale the workloads down: %w", err)
	}
	browser, stopBrowser := ui.Browser(ctx, path)
	defer stopBrowser()
	for _, name := range views {
		for _, scheme := range []string{"light", "dark"} {
			if err := capture(browser, url+"#"+name, scheme, width, filepath.Join(out, "ui-"+name+"-"+scheme+".png")); err != nil {
				return fmt.Errorf("capture %s in %s: %w", name, scheme, err)
			}
		}
	}
	if command == "" {
		return nil
	}
	c := exec.CommandContext(ctx, "bash", "-c", command)
	c.Env = append(os.Environ(), "PAGE="+url, "SANDBOX="+s.Dir)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// capture writes a picture of an address of the page.
func capture(ctx context.Context, url, scheme string, width int64, file string) error {
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		return err
	}
	err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate("about:blank"), chromedp.Navigate(url), chromedp.WaitVisible("#main *"),
		chromedp.Sleep(5*time.Second)) // workloads and curves are read later
	if err != nil {
		return err
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}
