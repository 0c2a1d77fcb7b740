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

// Keeper records on a goroutine of its own: whoever hands it changes never waits for the disk. A recording that can't be written ends, and
// disturbs nobody. Its methods may be called from several goroutines; objects must not be changed after they were handed over.
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

// NewKeeper returns a Keeper. It records once it runs.
func NewKeeper() *Keeper { return newKeeper(mostWaiting) }

func newKeeper(most int) *Keeper {
	return &Keeper{changes: make(chan handed, most), ended: make(chan struct{}), slow: make(chan struct{}, 1)}
}

// Set records an object as it is now. See Writer.Set.
func (k *Keeper) Set(apiVersion, kind, key string, x any) { k.offer(handed{apiVersion, kind, key, x}) }

// Delete records that an object is gone.
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

// Run opens a Writer, writes what is handed over to it, flushes it so often, and closes it when the context ends. synced is closed when all
// objects that there were at the start have been handed over. It returns what ended the recording before the context did.
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

// Prune deletes the recordings of others in a directory, the oldest files first, until those that stay have at most so many bytes together.
// keep is the path of the recording of this process. Files that are no recordings stay, whatever their names.
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
