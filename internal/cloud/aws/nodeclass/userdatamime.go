// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// mimeBoundary separates the parts of MIME user data, with slashes added until no part has it in its text. It is no
// drawn one, so that equal settings make equal user data.
const mimeBoundary = "//"

// mimePart is a part of MIME multipart user data: its content type and its text.
type mimePart struct{ kind, body string }

// Content types of the MIME parts of user data.
const (
	kindNodeConfig = "application/node.eks.aws"
	kindScript     = `text/x-shellscript; charset="us-ascii"`
)

// readParts are the parts of a user's own user data: of MIME multipart, or the text as one part of the kind that it
// looks like. None for an empty text. A text that begins like MIME and is none is an error: as a script, none of its parts would run.
func readParts(own string) ([]mimePart, error) {
	if strings.TrimSpace(own) == "" {
		return nil, nil
	}
	if message := strings.TrimLeft(own, "\r\n"); beginsLikeMIME(message) {
		return readMultipart(message)
	}
	var config struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(own), &config); err == nil && config.Kind == "NodeConfig" {
		return []mimePart{{kindNodeConfig, own}}, nil
	}
	return []mimePart{{kindScript, own}}, nil
}

// beginsLikeMIME reports whether a text begins with a header that MIME messages begin with.
func beginsLikeMIME(text string) bool {
	header, _, ok := strings.Cut(text, ":")
	return ok && (strings.EqualFold(header, "MIME-Version") || strings.EqualFold(header, "Content-Type"))
}

// readMultipart reads MIME multipart. Parts in base64 or quoted-printable are decoded.
func readMultipart(text string) (out []mimePart, err error) {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("its MIME header can't be read (an empty line must follow it): %w", err)
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("its MIME header Content-Type %q can't be read: %w", message.Header.Get("Content-Type"), err)
	case !strings.HasPrefix(kind, "multipart/"):
		return nil, fmt.Errorf("its MIME header has Content-Type %q; use multipart/mixed with a boundary", kind)
	}
	for reader := multipart.NewReader(message.Body, params["boundary"]); ; {
		p, err := reader.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read MIME parts: %w", err)
		}
		var text io.Reader = p // quoted-printable is decoded by it
		if strings.EqualFold(p.Header.Get("Content-Transfer-Encoding"), "base64") {
			text = base64.NewDecoder(base64.StdEncoding, p)
		}
		body, err := io.ReadAll(text)
		if err != nil {
			return nil, fmt.Errorf("read MIME parts: %w", err)
		}
		out = append(out, mimePart{p.Header.Get("Content-Type"), string(body)})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("MIME multipart without a part between its boundaries %q", params["boundary"])
	}
	return out, nil
}

// writeMultipart writes MIME multipart user data.
func writeMultipart(list []mimePart) (string, error) {
	boundary := mimeBoundary
	for slices.ContainsFunc(list, func(p mimePart) bool { return strings.Contains(p.body, "--"+boundary) }) {
		boundary += "/"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=%q\r\n\r\n", boundary)
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		return "", err
	}
	for _, p := range list {
		out, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {p.kind}})
		if err != nil {
			return "", err
		}
		if _, err := io.WriteString(out, p.body); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}
