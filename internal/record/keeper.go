// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mostWaiting is how many changes may wait for a Keeper: as many as the first list of a large cluster has, several times.
const mostWaiting = 200_000

// errSlow is the error of changes that come faster than they can be written.
var errSlow = fmt.Errorf("%d changes wait to be written: the disk is too slow, or hangs", mostWaiting)

// Keeper records in its own goroutine, so callers never wait for the disk. If a write fails, only the recording ends. It is safe
// for concurrent use; objects passed to it must not be modified.
type Keeper struct {
	changes chan handed
	ended   chan struct{} // closed when nothing more is recorded
	slow    chan struct{} // of one: changes were lost
}

// handed is an object to record; object nil: it is gone.
type handed struct {
	apiVersion, kind, key string
	object                any
}

// NewKeeper returns a Keeper. It starts to write when Run is called.
func NewKeeper() *Keeper { return newKeeper(mostWaiting) }

func newKeeper(most int) *Keeper {
	return &Keeper{changes: make(chan handed, most), ended: make(chan struct{}), slow: make(chan struct{}, 1)}
}

// Set records the current state of an object. See Writer.Set.
func (k *Keeper) Set(apiVersion, kind, key string, x any) { k.offer(handed{apiVersion, kind, key, x}) }

// Delete records the deletion of an object.
func (k *Keeper) Delete(kind, key string) { k.offer(handed{kind: kind, key: key}) }

func (k *Keeper) offer(h handed) {
	select {
	case <-k.ended:
		return
	default:
	}
	select {
	case k.changes <- h:
	default:
		select {
		case k.slow <- struct{}{}:
		default: // it was said
		}
	}
}

// Run opens a Writer, writes the queued changes to it, flushes it at an interval, and closes it when the context ends. synced is
// closed once all objects of the initial lists have been queued. It returns the error that ended the recording early, nil if the
// context did.
func (k *Keeper) Run(ctx context.Context, open func() (*Writer, error), every time.Duration, synced <-chan struct{}) error {
	w, err := open()
	if err == nil {
		err = errors.Join(k.keep(ctx, w, every, synced), w.Close())
	}
	close(k.ended)
	for range len(k.changes) { // objects that nobody records are held by nobody
		<-k.changes
	}
	return err
}

// keep writes until the context ends, or the recording can't be written.
func (k *Keeper) keep(ctx context.Context, w *Writer, every time.Duration, synced <-chan struct{}) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var err error
	for err == nil && ctx.Err() == nil {
		select {
		case h := <-k.changes:
			h.into(w)
		case <-synced:
			synced = nil
			k.drain(w)
			err = w.Synced()
		case <-tick.C:
			err = w.Flush()
		case <-k.slow:
			err = errSlow
		case <-ctx.Done():
		}
	}
	if err == nil {
		k.drain(w)
	}
	return err
}

// drain records what waits.
func (k *Keeper) drain(w *Writer) {
	for range len(k.changes) {
		(<-k.changes).into(w)
	}
}

func (h handed) into(w *Writer) {
	if h.object == nil {
		w.Delete(h.kind, h.key)
		return
	}
	w.Set(h.apiVersion, h.kind, h.key, h.object)
}

// Prune deletes recordings of other processes in a directory, oldest files first, until the remaining ones have at most most bytes
// in total. keep is the path of the recording of this process. Files that are not recordings are never deleted.
func Prune(dir, keep string, most int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("delete old recordings: %w", err)
	}
	var others []fs.FileInfo
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.Contains(name, ".zst") || strings.HasPrefix(name, filepath.Base(keep)) {
			continue
		}
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // its own process has deleted it
		case err != nil:
			return fmt.Errorf("delete old recordings: %w", err)
		case isRecording(filepath.Join(dir, name)):
			others = append(others, info)
		}
	}
	slices.SortFunc(others, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	size := int64(0)
	for _, info := range others {
		if size += info.Size(); size > most {
			if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("delete old recordings: %w", err)
			}
		}
	}
	return nil
}

// isRecording reports whether a file begins with a run of a recorder, of whatever version. One that can't be read is somebody else's.
func isRecording(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	fr, err := nextFrame(f, 0, math.MaxInt64)
	if err != nil || fr.end == fr.begin {
		return false
	}
	h, err := readHeader(f, fr)
	return h != nil || errors.Is(err, ErrNewer)
}
