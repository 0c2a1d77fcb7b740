// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Config configures a Writer.
type Config struct {
	Path       string
	Header     Header        // Version, Key and Continues are set by the Writer
	Anonymizer *Anonymizer   // nil: names are not replaced
	MaxBytes   int64         // growth after the initial snapshot at which a file is full, in bytes; 0: no limit
	MaxFiles   int           // number of full files to keep; 0: all
	Idle       time.Duration // interval at which a Flush records that nothing has changed
	Now        func() time.Time

	hasty bool // for tests: nothing waits for the disk
}

// Stats are the statistics of a Writer.
type Stats struct {
	Objects int   // number of current objects
	Changes int64 // number of changes after the initial snapshot
	Bytes   int64 // compressed size of the file
	Files   int   // number of full files
}

// Writer writes a recording. It is safe for concurrent use. After an error, it writes nothing, and Flush and Close return that
// error.
type Writer struct {
	c Config

	mu      sync.Mutex
	file    *os.File
	z       *zstd.Encoder
	lines   int
	sum     hash.Hash32
	flushed int64 // time of the last check
	last    int64 // time of the last line
	began   int64 // bytes of the file when its first snapshot was complete; -1: it is not
	resumed bool  // the file was begun by another run
	have    map[objectKey]written
	stats   Stats
	err     error
}

// written is an object as it was last written.
type written struct {
	key  string
	json []byte
}

// Open begins a recording, or resumes the one in the file: it removes an incomplete end after a crash and changes nothing else. It
// returns an error if the file is not a recording of the same cluster.
func Open(c Config) (w *Writer, resumed bool, err error) {
	w = &Writer{c: c, have: map[objectKey]written{}, sum: crc32.NewIEEE(), began: -1}
	w.c.Header.Version = Version
	if c.Anonymizer != nil {
		w.c.Header.Cluster = c.Anonymizer.Token(c.Header.Cluster)
		w.c.Header.Key = c.Anonymizer.fingerprint()
	}
	if w.file, err = os.OpenFile(c.Path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, false, fmt.Errorf("open the recording: %w", err)
	}
	file := w.file
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if err = syscall.Flock(int(w.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, false, fmt.Errorf("%s: another process is recording to it (%w); use another file", c.Path, err)
	}
	if resumed, err = w.repair(); err != nil {
		return nil, false, err
	}
	if w.resumed = resumed; resumed {
		if w.stats.Bytes, err = w.file.Seek(0, io.SeekCurrent); err != nil {
			return nil, false, fmt.Errorf("%s: %w", c.Path, err)
		}
	}
	return w, resumed, w.begin(false)
}

// repair makes the file end where a run ends.
func (w *Writer) repair() (resumed bool, err error) {
	info, err := w.file.Stat()
	if err != nil {
		return false, fmt.Errorf("%s: %w", w.c.Path, err)
	}
	size, at := info.Size(), int64(0)
	if size == 0 {
		return false, w.sameAsFull()
	}
	for at < size {
		f, err := nextFrame(w.file, at, size)
		if err == nil && f.open { // a run behind it says that this is not the end of the file
			var next int64
			if next, err = findFrame(w.file, at+1, size); err == nil && next < size {
				err = errGarbage
			}
		}
		if err != nil {
			return false, fmt.Errorf("%s, byte %d: %w: not written by 'dovetail record', or damaged; record to another file", w.c.Path, at, err)
		}
		if f.open && f.end == f.begin { // not even its header
			return resumed, w.cut(f.begin, nil)
		}
		h, err := readHeader(w.file, f)
		if err != nil {
			return false, fmt.Errorf("%s, byte %d: %w; record to another file", w.c.Path, at, err)
		}
		if h == nil { // killed before its first Flush
			return resumed, w.cut(f.begin, nil)
		}
		if err := w.sameAs(h); err != nil {
			return false, err
		}
		resumed = true
		if f.open {
			return true, w.cut(f.end, lastBlock)
		}
		at = f.end
	}
	_, err = w.file.Seek(size, io.SeekStart)
	return resumed, err
}

// cut shortens the file, and goes on behind a text.
func (w *Writer) cut(at int64, text []byte) error {
	err := w.file.Truncate(at)
	if err == nil {
		_, err = w.file.WriteAt(text, at)
	}
	if err == nil {
		_, err = w.file.Seek(at+int64(len(text)), io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("%s: repair the end of the recording: %w", w.c.Path, err)
	}
	return nil
}

// sameAsFull compares the recording with the last of its files that were full.
func (w *Writer) sameAsFull() error {
	full, err := fullFiles(w.c.Path)
	if err != nil || len(full) == 0 {
		return err
	}
	last := fullName(w.c.Path, full[len(full)-1])
	f, err := os.Open(last)
	if err != nil {
		return fmt.Errorf("open the previous file of the recording: %w", err)
	}
	defer f.Close()
	fr, err := nextFrame(f, 0, math.MaxInt64)
	if err != nil {
		return fmt.Errorf("%s: %w; record to another file", last, err)
	}
	h, err := readHeader(f, fr)
	if err != nil || h == nil {
		return errors.Join(fmt.Errorf("%s: not a recording; record to another file", last), err)
	}
	return w.sameAs(h)
}

func (w *Writer) sameAs(h *Header) error {
	switch mine := w.c.Header; {
	case (h.Key == "") != (mine.Key == ""):
		return fmt.Errorf("%s: holds a recording with%s --anonymize; use the same flag, or record to another file", w.c.Path, map[bool]string{true: "out"}[h.Key == ""])
	case h.Key != mine.Key:
		return fmt.Errorf("%s: was anonymized with another key; restore the key file, or record to another file", w.c.Path)
	case h.Cluster != mine.Cluster:
		return fmt.Errorf("%s: is a recording of another cluster (%s, not %s); record to another file", w.c.Path, h.Cluster, mine.Cluster)
	}
	return nil
}

// begin begins a run: its header, and the snapshot of what was there in the file before.
func (w *Writer) begin(continues bool) error {
	var err error
	// One goroutine; a window that holds a few thousand pods. The checksum of a frame could not be written after a crash.
	if w.z, err = zstd.NewWriter(counter{w}, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20), zstd.WithEncoderCRC(false)); err != nil {
		return w.fail(err)
	}
	h := w.c.Header
	h.Continues = continues
	if w.put(line{Header: &h}); !continues {
		return w.flush()
	}
	for _, k := range slices.SortedFunc(maps.Keys(w.have), func(a, b objectKey) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.key, b.key))
	}) {
		w.put(line{Kind: k.kind, Object: w.have[k].json})
	}
	return w.synced()
}

// counter counts what is written to the file.
type counter struct{ w *Writer }

func (c counter) Write(p []byte) (int, error) {
	n, err := c.w.file.Write(p)
	c.w.stats.Bytes += int64(n)
	return n, err
}

func (w *Writer) sync() error {
	if w.c.hasty {
		return nil
	}
	return w.file.Sync()
}

func (w *Writer) fail(err error) error {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("write recording %s: %w", w.c.Path, err)
	}
	return w.err
}

// put writes one line. Time never runs backwards within a run.
func (w *Writer) put(l line) {
	if w.err != nil {
		return
	}
	w.last = max(w.last, w.c.Now().UnixMilli())
	l.Time = w.last
	text, err := json.Marshal(l)
	if err != nil {
		_ = w.fail(err)
		return
	}
	text = append(text, '\n')
	if l.Check == nil {
		w.lines++
		_, _ = w.sum.Write(text) // a hash never fails
	}
	if _, err := w.z.Write(text); err != nil {
		_ = w.fail(err)
	}
}

// Set records the current state of an object. If no recorded field has changed, nothing is written. x must encode to the JSON of a
// Kubernetes object; key is its namespace/name, or its name if it is cluster-scoped.
func (w *Writer) Set(apiVersion, kind, key string, x any) {
	text, outKey, err := w.encode(apiVersion, kind, x)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		_ = w.fail(fmt.Errorf("encode %s %s: %w", kind, key, err))
		return
	}
	k := objectKey{kind, key}
	if bytes.Equal(w.have[k].json, text) {
		return
	}
	w.have[k] = written{outKey, text}
	w.put(line{Kind: kind, Object: text})
	w.stats.Changes += w.afterSnapshot()
}

// Delete records the deletion of an object.
func (w *Writer) Delete(kind, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := objectKey{kind, key}
	if was, ok := w.have[k]; ok {
		delete(w.have, k)
		w.put(line{Kind: kind, Gone: was.key})
		w.stats.Changes += w.afterSnapshot()
	}
}

func (w *Writer) afterSnapshot() int64 {
	if w.began < 0 {
		return 0
	}
	return 1
}

var errNotHeld = errors.New("this kind is not recorded")

// Holds returns an error if a kind is not recorded; see fields.txt.
func Holds(kind string) error {
	if fields().kinds[kind] == nil {
		return errNotHeld
	}
	return nil
}

// encode returns what is written of an object, and its key as it is written.
func (w *Writer) encode(apiVersion, kind string, x any) (text []byte, key string, err error) {
	raw, err := json.Marshal(x)
	if err != nil {
		return nil, "", err
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, "", err
	}
	out := project(kind, object, w.c.Anonymizer)
	if out == nil {
		return nil, "", errNotHeld
	}
	out["apiVersion"], out["kind"] = apiVersion, kind
	text, err = json.Marshal(out)
	return text, keyOf(out), err
}

// keyOf returns the namespace/name of a decoded object.
func keyOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	key, _ := meta["name"].(string)
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		key = namespace + "/" + key
	}
	return key
}

// Synced records that the initial snapshot is complete.
func (w *Writer) Synced() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced()
}

func (w *Writer) synced() error {
	w.put(line{Synced: true})
	err := w.flush()
	if w.began = w.stats.Bytes; w.resumed { // of a file that others began all counts: else each restart would add a snapshot and as much again
		w.began = 0
	}
	return err
}

// Flush writes recorded changes to disk. If the file is full, it begins the next one.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isFull() && w.lines == 0 && w.c.Now().UnixMilli() < w.flushed+w.c.Idle.Milliseconds() {
		return w.err
	}
	if err := w.flush(); err != nil || !w.isFull() {
		return err
	}
	return w.fail(w.rotate())
}

// isFull reports whether the file is as large as it may be.
func (w *Writer) isFull() bool {
	return w.began >= 0 && w.c.MaxBytes != 0 && w.stats.Bytes-w.began >= w.c.MaxBytes
}

func (w *Writer) flush() error {
	w.put(line{Check: &check{w.lines, fmt.Sprintf("%08x", w.sum.Sum32())}})
	w.lines, w.flushed = 0, w.last
	w.sum.Reset()
	if w.err != nil {
		return w.err
	}
	return w.fail(errors.Join(w.z.Flush(), w.sync()))
}

// rotate gives the full file its number and begins the next one with a snapshot.
func (w *Writer) rotate() error {
	full, err := fullFiles(w.c.Path)
	if err != nil {
		return err
	}
	number := 1
	if len(full) > 0 {
		number = full[len(full)-1] + 1
	}
	if err := errors.Join(w.z.Close(), w.sync()); err != nil {
		return err
	}
	if err := os.Rename(w.c.Path, fullName(w.c.Path, number)); err != nil {
		return err
	}
	if err := w.file.Close(); err != nil { // and with it the lock, which the next file has of its own
		return err
	}
	if w.file, err = os.OpenFile(w.c.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if err := syscall.Flock(int(w.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	w.stats.Bytes, w.began, w.resumed = 0, -1, false
	w.stats.Files++
	if err := w.begin(true); err != nil {
		return err
	}
	if full = append(full, number); w.c.MaxFiles > 0 && len(full) > w.c.MaxFiles {
		for _, n := range full[:len(full)-w.c.MaxFiles] {
			if err := os.Remove(fullName(w.c.Path, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stats returns the current statistics.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.stats
	out.Objects = len(w.have)
	return out
}

// Close ends the run. Nothing may be recorded afterwards.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.flush()
	if err == nil {
		err = w.fail(errors.Join(w.z.Close(), w.sync()))
	}
	closed := w.file.Close()
	if w.err == nil {
		w.err = errors.New("the recording has ended")
	}
	return errors.Join(err, closed)
}
