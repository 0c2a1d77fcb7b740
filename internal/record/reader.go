// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Change is a line of a recording with a change of an object.
type Change struct {
	Time   time.Time
	Kind   string
	Key    string          // namespace/name
	Object json.RawMessage // nil: deleted
}

// Visitor receives the content of a recording, in order. Nil functions are not called.
type Visitor struct {
	Begin  func(time.Time, Header) // a run begins: all its objects follow, including those known from earlier runs
	Synced func(time.Time)         // the initial snapshot of the run is complete
	Change func(Change)
}

// Problem is an unreadable part of a recording.
type Problem struct {
	File   string
	Offset int64 // byte offset in the file
	Until  time.Time
	Why    string
}

func (p Problem) String() string {
	out := fmt.Sprintf("%s, byte %d: %s", p.File, p.Offset, p.Why)
	if !p.Until.IsZero() {
		out += "; it was read up to " + p.Until.Format(time.RFC3339)
	}
	return out
}

// Gap is a time between two runs without a recording.
type Gap struct{ From, To time.Time }

// Report summarizes the content of a recording.
type Report struct {
	Header   Header // Header of the last run
	From, To time.Time
	Runs     int
	Gaps     []Gap
	Changes  map[string]int64 // by kind, without initial snapshots
	Bytes    int64
	Files    int
	Problems []Problem
}

// ErrNewer is the error for a recording that a later version wrote.
var ErrNewer = errors.New("newer format")

const (
	mostLine   = 16 << 20 // bytes; an API object has at most a tenth of that
	mostWindow = 64 << 20 // bytes of memory for decompression
)

// Read reads a recording and calls v for every readable part. Report.Problems lists the unreadable parts. It returns an error if
// nothing can be read: the file does not exist, contains no run, or contains a run in a newer format.
func Read(path string, v Visitor) (*Report, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	r := &reader{v: v, out: &Report{Changes: map[string]int64{}, Files: len(files)}}
	for _, name := range files {
		if err := r.file(name); err != nil {
			return r.out, err
		}
	}
	if r.out.Runs == 0 {
		if len(r.out.Problems) > 0 {
			return r.out, fmt.Errorf("%s", r.out.Problems[0])
		}
		return r.out, fmt.Errorf("%s: empty: nothing was recorded to it", path)
	}
	return r.out, nil
}

type reader struct {
	v      Visitor
	out    *Report
	name   string
	synced bool
}

func (r *reader) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("%s: is a directory; need the file that 'dovetail record --out' wrote", name)
	}
	r.name = name
	size := info.Size()
	r.out.Bytes += size
	for at := int64(0); at < size; {
		fr, err := nextFrame(f, at, size)
		if err != nil && !errors.Is(err, errGarbage) {
			return fmt.Errorf("read recording %s: %w", name, err)
		}
		whole := err == nil && !fr.open && startsFrame(f, fr.end)
		fr.begin, fr.end, fr.open = at, max(at, fr.end), !whole
		next := fr.end
		if !whole { // a wrong length may reach beyond where the next run begins
			if next, err = findFrame(f, at+1, size); err != nil {
				return fmt.Errorf("read recording %s: %w", name, err)
			}
			fr.end = min(fr.end, next)
		}
		if fr.end > at { // what stands before a wrong byte, or before the end of a file that was cut off, is read
			if err := r.frame(f, fr); err != nil {
				return err
			}
		}
		switch at = next; {
		case next == fr.end:
		case next < size:
			r.problem(fr.end, fmt.Sprintf("corrupt: %d bytes were skipped; restore the file from a copy to read them", next-fr.end))
		case fr.begin == 0 && fr.end == 0:
			r.problem(0, "not a recording; need a file that 'dovetail record --out' wrote")
		default:
			r.problem(fr.end, fmt.Sprintf("truncated: the last %d bytes are incomplete; 'dovetail record --out' with this file resumes the recording", size-fr.end))
		}
	}
	return nil
}

// startsFrame reports whether a frame may begin at an offset, or the file may end there.
func startsFrame(r io.ReaderAt, at int64) bool {
	var head [4]byte
	n, err := r.ReadAt(head[:], at)
	return (err == nil || err == io.EOF) && bytes.HasPrefix(magic, head[:n])
}

// findFrame returns where the next run begins at or after an offset; the size: nowhere.
func findFrame(r io.ReaderAt, at, size int64) (int64, error) {
	buffer := make([]byte, 1<<20)
	for at < size {
		n, err := r.ReadAt(buffer, at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		i := bytes.Index(buffer[:n], magic)
		switch {
		case i < 0 && n < len(buffer):
			return size, nil
		case i < 0:
			at += int64(n - len(magic) + 1)
			continue
		}
		at += int64(i)
		if f, err := nextFrame(r, at, size); err == nil || errors.Is(err, errGarbage) {
			f.begin, f.end, f.open = at, max(at, f.end), true
			if h, err := readHeader(r, f); h != nil || errors.Is(err, ErrNewer) {
				return at, nil
			}
		}
		at++ // these bytes were part of something else
	}
	return size, nil
}

func (r *reader) problem(offset int64, why string) {
	r.out.Problems = append(r.out.Problems, Problem{r.name, offset, r.out.To, why})
}

// lines decompresses a frame.
func lines(f io.ReaderAt, fr frame) (*bufio.Reader, func(), error) {
	var src io.Reader = io.NewSectionReader(f, fr.begin, fr.end-fr.begin)
	if fr.open {
		src = io.MultiReader(src, bytes.NewReader(lastBlock))
	}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
	if err != nil {
		return nil, nil, err
	}
	return bufio.NewReaderSize(z, 64<<10), z.Close, nil
}

// readLine returns the next line. It is io.EOF at the end, and io.ErrUnexpectedEOF for a line without its end.
func readLine(b *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := b.ReadSlice('\n')
		out = append(out, part...)
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, bufio.ErrBufferFull) && len(out) <= mostLine:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("a line of more than %d bytes", mostLine)
		case err == io.EOF && len(out) > 0:
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
}

// readHeader returns the header of a frame; nil: it has none yet.
func readHeader(f io.ReaderAt, fr frame) (*Header, error) {
	b, done, err := lines(f, fr)
	if err != nil {
		return nil, err
	}
	defer done()
	h, _, err := headerLine(b, fr)
	return h, err
}

// headerLine reads the first line of a frame; nil: it has none yet.
func headerLine(b *bufio.Reader, fr frame) (*Header, []byte, error) {
	text, err := readLine(b)
	if err == io.EOF || err == io.ErrUnexpectedEOF && fr.open {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("damaged: %w", err)
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil || l.Header == nil {
		return nil, nil, errors.New("compressed, but not by 'dovetail record'")
	}
	if l.Header.Version > Version {
		return nil, nil, fmt.Errorf("%w: format version %d, by dovetail %s; this dovetail reads version %d and older: use a newer dovetail", ErrNewer, l.Header.Version, l.Header.Program, Version)
	}
	return l.Header, text, nil
}

// frame reads one run. Lines are handed on when their check is right.
func (r *reader) frame(f io.ReaderAt, fr frame) error {
	b, done, err := lines(f, fr)
	if err != nil {
		r.problem(fr.begin, "damaged: "+err.Error())
		return nil
	}
	defer done()
	h, text, err := headerLine(b, fr)
	switch {
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("%s, byte %d: %w", r.name, fr.begin, err)
	case err != nil:
		r.problem(fr.begin, err.Error())
		return nil
	case h == nil:
		return nil // killed before it wrote anything
	}
	var waiting []line
	sum := crc32.NewIEEE()
	bad := func(why string) error {
		r.problem(fr.begin, fmt.Sprintf("corrupt: %s in the run that ends at byte %d; the rest of this run was skipped, restore the file from a copy to read it", why, fr.end))
		return nil
	}
	for ; ; text, err = readLine(b) {
		if err == io.EOF || err == io.ErrUnexpectedEOF && fr.open {
			return nil // what was not checked is what a crash left
		}
		if err != nil {
			return bad(err.Error())
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return bad("a line that is not JSON")
		}
		if l.Check == nil {
			_, _ = sum.Write(text)
			waiting = append(waiting, l)
			continue
		}
		if l.Check.Lines != len(waiting) || l.Check.CRC32 != fmt.Sprintf("%08x", sum.Sum32()) {
			return bad("a wrong checksum")
		}
		for i := range waiting {
			if err := r.take(&waiting[i]); err != nil {
				return bad(err.Error())
			}
		}
		r.out.To = instant(l.Time)
		waiting = waiting[:0]
		sum.Reset()
	}
}

// take hands on one line.
func (r *reader) take(l *line) error {
	at := instant(l.Time)
	switch {
	case l.Header != nil:
		if r.out.Runs == 0 {
			r.out.From = at
		} else if !l.Header.Continues {
			r.out.Gaps = append(r.out.Gaps, Gap{r.out.To, at})
		}
		r.out.Runs++
		r.out.Header, r.synced = *l.Header, false
		if r.v.Begin != nil {
			r.v.Begin(at, *l.Header)
		}
	case l.Synced:
		if r.synced = true; r.v.Synced != nil {
			r.v.Synced(at)
		}
	case l.Kind != "":
		c := Change{Time: at, Kind: l.Kind, Key: l.Gone, Object: l.Object}
		if l.Object != nil {
			var head struct {
				Metadata struct{ Namespace, Name string }
			}
			if err := json.Unmarshal(l.Object, &head); err != nil {
				return fmt.Errorf("an object that is not JSON")
			}
			if c.Key = head.Metadata.Name; head.Metadata.Namespace != "" {
				c.Key = head.Metadata.Namespace + "/" + c.Key
			}
		}
		if r.synced {
			r.out.Changes[l.Kind]++
		}
		if r.v.Change != nil {
			r.v.Change(c)
		}
	}
	return nil
}

// Objects returns the objects at the end of a recording, sorted by kind and key. If the last run ended within its initial snapshot,
// they are the objects of the run before it.
func Objects(path string) ([]Change, *Report, error) {
	have, next := map[objectKey]Change{}, map[objectKey]Change{}
	synced := false
	report, err := Read(path, Visitor{
		Begin:  func(time.Time, Header) { next, synced = map[objectKey]Change{}, false },
		Synced: func(time.Time) { have, synced = next, true },
		Change: func(c Change) {
			if c.Object == nil {
				delete(next, objectKey{c.Kind, c.Key})
				return
			}
			next[objectKey{c.Kind, c.Key}] = c
		},
	})
	if err != nil {
		return nil, report, err
	}
	if !synced && len(have) == 0 {
		return nil, report, fmt.Errorf("%s: its first snapshot is incomplete; record again", path)
	}
	out := make([]Change, 0, len(have))
	for _, c := range have {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
	})
	return out, report, nil
}

// IsRecording reports whether head is the beginning of a recording.
func IsRecording(head []byte) bool { return bytes.HasPrefix(head, magic) }
