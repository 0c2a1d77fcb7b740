// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// journal is an append-only file of records, one JSON object a line. One process has it at a time.
type journal struct {
	f     *os.File
	named string // the path: the file's own name is that under which it was opened
	size  int64  // up to the end of the last whole line

	syncing sync.Mutex
	synced  int64 // up to here it is on disk
}

// torn is a last change that was not written whole.
type torn struct {
	Line  int
	Bytes int
}

// openJournal opens or makes a journal and hands every record in it to apply. A last line without its end, or a last change
// without its last record, is what a kill in the middle of a write leaves; nobody was told of it, so it is cut off and said.
// Anything else that can't be read is an error.
func openJournal(path string, apply func(machines.Record) error) (*journal, *torn, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	j := &journal{f: f, named: path}
	cut, err := j.replay(path, apply)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return j, cut, nil
}

func (j *journal) replay(path string, apply func(machines.Record) error) (*torn, error) {
	if err := syscall.Flock(int(j.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("open journal %s: another process has it; stop that one first", path)
		}
		return nil, fmt.Errorf("lock journal %s: %w", path, err)
	}
	data, err := io.ReadAll(j.f)
	if err != nil {
		return nil, fmt.Errorf("read journal %s: %w", path, err)
	}
	line := 0
	var group []machines.Record // of one change, whose last record has not been read yet
	at := int64(0)
	for int(at) < len(data) {
		line++
		rest := data[at:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		var r machines.Record
		if err := json.Unmarshal(rest[:end], &r); err != nil {
			return nil, fmt.Errorf("journal %s line %d: %w", path, line, err)
		}
		at += int64(end) + 1
		if group = append(group, r); r.More {
			continue
		}
		for i, r := range group {
			if err := apply(r); err != nil {
				return nil, fmt.Errorf("journal %s line %d: %w", path, line-len(group)+1+i, err)
			}
		}
		j.size, group = at, nil
	}
	if int(j.size) == len(data) {
		return nil, nil
	}
	if err := j.f.Truncate(j.size); err != nil {
		return nil, fmt.Errorf("cut torn line %d off journal %s: %w", line, path, err)
	}
	if _, err := j.f.Seek(j.size, io.SeekStart); err != nil {
		return nil, fmt.Errorf("seek in journal %s: %w", path, err)
	}
	return &torn{Line: line, Bytes: len(data) - int(j.size)}, nil
}

// append writes the records of one change behind the last one. After an error the journal may end in part of them, and must not be appended to any
// more.
func (j *journal) append(records []machines.Record) error {
	if len(records) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i, r := range records {
		r.More = i < len(records)-1
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("encode record %d: %w", r.Seq, err)
		}
	}
	n, err := j.f.Write(b.Bytes())
	if err != nil {
		return fmt.Errorf("append to journal %s: %w", j.named, err)
	}
	j.size += int64(n)
	return nil
}

// syncTo returns when the first n bytes are on disk. Calls that wait at the same time share one sync; unlike the other methods
// it may be called while the journal is appended to.
func (j *journal) syncTo(n int64) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if n <= j.synced {
		return nil
	}
	info, err := j.f.Stat()
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync journal %s: %w", j.named, err)
	}
	j.synced = info.Size()
	return nil
}

// reader returns a reader of the current journal from its start.
func (j *journal) reader() io.Reader {
	return io.NewSectionReader(j.f, 0, j.size)
}

func (j *journal) close() error { return j.f.Close() }
