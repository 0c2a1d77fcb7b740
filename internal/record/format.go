// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Version is the format version that this package writes. It reads this version and all earlier ones.
const Version = 1

// Header is the first line of each run of a recorder.
type Header struct {
	Version   int      `json:"version"`
	Program   string   `json:"program"`             // version of Dovetail
	Cluster   string   `json:"cluster"`             // UID of Namespace kube-system, a token if anonymized
	Kinds     []string `json:"kinds"`               // recorded kinds
	Missing   []string `json:"missing,omitempty"`   // kinds that the API server does not serve
	Denied    []string `json:"denied,omitempty"`    // kinds that the recorder was not allowed to read, or does not watch
	Key       string   `json:"key,omitempty"`       // fingerprint of the token key; empty: not anonymized
	Continues bool     `json:"continues,omitempty"` // the previous file was full: nothing is missing in between
}

// line is one line of a recording: exactly one of its fields other than Time is set, Object with Kind.
type line struct {
	Time   int64           `json:"t"` // Unix time, in milliseconds
	Header *Header         `json:"recording,omitempty"`
	Kind   string          `json:"kind,omitempty"`
	Object json.RawMessage `json:"object,omitempty"` // the new state of the object
	Gone   string          `json:"gone,omitempty"`   // namespace/name of a deleted object of that kind
	Synced bool            `json:"synced,omitempty"` // end of the initial snapshot
	Check  *check          `json:"check,omitempty"`
}

// check is about the lines since the check before it, or since the header.
type check struct {
	Lines int    `json:"lines"`
	CRC32 string `json:"crc32"`
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// mostBlock is the most bytes that a compressed block may have, by the format of zstd.
const mostBlock = 128 << 10

// frame is one run of a recorder in a file: a frame of zstd.
type frame struct {
	begin, end int64 // end is behind the last whole block
	open       bool  // it does not end as frames do: the recorder was killed, or is still running
}

// errGarbage is the error of bytes that are no frame.
var errGarbage = errors.New("not zstd")

// nextFrame returns the frame that begins at an offset, without decompressing it.
func nextFrame(r io.ReaderAt, begin, size int64) (frame, error) {
	var head [zstd.HeaderMaxSize]byte
	n, err := r.ReadAt(head[:], begin)
	if err != nil && err != io.EOF {
		return frame{}, err
	}
	var h zstd.Header
	if err := h.Decode(head[:n]); err != nil || h.Skippable {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return frame{begin: begin, end: begin, open: true}, nil
		}
		return frame{}, errGarbage
	}
	f := frame{begin: begin, end: begin + int64(h.HeaderSize)}
	for {
		var block [4]byte
		if n, err := r.ReadAt(block[:3], f.end); err == io.EOF && n < 3 {
			f.open = true
			return f, nil
		} else if err != nil && err != io.EOF {
			return f, err
		}
		b := binary.LittleEndian.Uint32(block[:])
		last, kind, length := b&1 == 1, b>>1&3, int64(b>>3)
		if kind == 3 || length > mostBlock {
			return f, errGarbage
		}
		if kind == 1 { // one byte, repeated
			length = 1
		}
		if f.end+3+length > size {
			f.open = true
			return f, nil
		}
		f.end += 3 + length
		if last {
			if h.HasCheckSum {
				f.end += 4
			}
			return f, nil
		}
	}
}

// lastBlock is an empty block that ends a frame.
var lastBlock = []byte{1, 0, 0}

// magic is how frames begin.
var magic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// Files returns the files of a recording in order: the full ones, then the current file.
func Files(path string) ([]string, error) {
	full, err := fullFiles(path)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(full)+1)
	for _, n := range full {
		out = append(out, fullName(path, n))
	}
	if _, err := os.Stat(path); err == nil || len(full) == 0 {
		out = append(out, path)
	}
	return out, nil
}

func fullName(path string, n int) string { return path + "." + strconv.Itoa(n) }

// fullFiles returns the numbers of the files of a recording that were full.
func fullFiles(path string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("list the files of recording %s: %w", path, err)
	}
	var out []int
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"."); ok {
			if n, err := strconv.Atoi(rest); err == nil && n > 0 && strconv.Itoa(n) == rest {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

type objectKey struct{ kind, key string }
