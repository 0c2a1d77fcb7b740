// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/record"
)

// recordingFlags are what a controller records of what it watches.
type recordingFlags struct {
	dir             string
	maxMiB, maxKept int
}

func (f *recordingFlags) add(g *pflag.FlagSet) {
	g.StringVar(&f.dir, "record-dir", "", "Directory for a recording of the cluster, which 'dovetail replay' reads. Each pod of the controller writes to HOSTNAME.zst. If empty, nothing is recorded (docs/RECORD.md#in-the-controller)")
	g.IntVar(&f.maxMiB, "record-max-file-size", 64, "Size in MiB, without the initial snapshot, at which the file in --record-dir is rotated")
	g.IntVar(&f.maxKept, "record-max-files", 8, "Number of rotated files to keep in --record-dir. The oldest is deleted")
}

func (f *recordingFlags) validate() error {
	switch {
	case f.maxMiB < 1:
		return fmt.Errorf("--record-max-file-size %d: need a number of MiB, at least 1", f.maxMiB)
	case f.maxKept < 1:
		return fmt.Errorf("--record-max-files %d: need a number of files, at least 1", f.maxKept)
	}
	return nil
}

// recordingEnds is how long a process that ends waits for its recording to be closed, which takes long on a disk that hangs.
const recordingEnds = 5 * time.Second

// recorder records what the watch sees, until the context ends. It returns nil if nothing is recorded. A recording that can't be written is
// logged, and is no reason for a controller to end or to wait.
func (p *controllerProcess) recorder(ctx context.Context, synced <-chan struct{}) watch.Recorder {
	f, log := p.flags.recording, p.settings.log
	if f.dir == "" {
		return nil
	}
	keeper, ended := record.NewKeeper(), make(chan struct{})
	p.recorded = ended
	go func() {
		defer close(ended)
		err := keeper.Run(ctx, func() (*record.Writer, error) {
			w, path, err := p.openRecording(ctx)
			if err != nil {
				return nil, fmt.Errorf("open the recording: %w", err)
			}
			log.Info("recording", "file", path)
			return w, nil
		}, flushEvery, synced)
		if err != nil && ctx.Err() == nil {
			log.Error("the recording has ended", "directory", f.dir, "error", err)
		}
	}()
	return keeper
}

// awaitRecording waits for the end of the recording to be written.
func (p *controllerProcess) awaitRecording() {
	if p.recorded == nil {
		return
	}
	select {
	case <-p.recorded:
	case <-time.After(recordingEnds):
		p.settings.log.Error("the last part of the recording was not written: the disk is too slow or hangs", "directory", p.flags.recording.dir)
	}
}

func (p *controllerProcess) openRecording(ctx context.Context) (w *record.Writer, path string, err error) {
	f := p.flags.recording
	name, err := os.Hostname()
	if err != nil {
		return nil, "", fmt.Errorf("read the host name: %w", err)
	}
	path = filepath.Join(f.dir, name+".zst")
	if err := errors.Join(os.MkdirAll(f.dir, 0o700), record.Prune(f.dir, path, int64(f.maxMiB)<<20*int64(f.maxKept+1))); err != nil {
		return nil, path, err
	}
	have, err := watch.Watched(ctx, p.client)
	if err != nil {
		return nil, path, err
	}
	w, _, err = record.Open(record.Config{
		Path: path, MaxBytes: int64(f.maxMiB) << 20, MaxFiles: f.maxKept, Idle: idleEvery, Now: time.Now,
		Header: record.Header{Program: version(), Cluster: have.Cluster, Kinds: have.Kinds, Missing: have.Missing, Denied: have.Denied},
	})
	return w, path, err
}
