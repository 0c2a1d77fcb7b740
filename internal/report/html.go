// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
)

//go:embed page.css
var pageStyle string

// htmlPage is HTML that grows.
//
// It is written without html/template: that finds methods by their names as it runs, so with it the linker keeps every
// exported method of every package, those of the AWS SDK too, and the binary is twice as large.
type htmlPage struct{ bytes.Buffer }

// htmlText is HTML, which write does not escape.
type htmlText string

// write adds HTML, with the strings of args escaped.
func (p *htmlPage) write(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok { // no htmlText
			args[i] = html.EscapeString(s)
		}
	}
	fmt.Fprintf(p, format, args...)
}

// writeHead begins a page, which needs no other file and runs no script.
func (p *htmlPage) writeHead(title string) {
	p.write(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%s</title>
<style>
`, title)
	p.WriteString(pageStyle + "</style>\n")
}
