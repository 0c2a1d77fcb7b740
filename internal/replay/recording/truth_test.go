// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/replay/recording"
	"github.com/dovetail-sh/dovetail/internal/state"
)

func noFiles(*manifests.Set) error { return nil }

// offerLab offers the instance types of labs to every NodePool.
func offerLab(s *state.State) {
	for _, p := range s.Pools.ListPools() {
		s.Pools.SetTypes(p.Name, labTypes(s.Resources()))
	}
}

// read reads a recording of a lab, and returns what it is replayed under.
func read(tb testing.TB, path string) (*recording.Recording, *replay.Variant) {
	table := state.NewResourceTable()
	types := labTypes(table)
	r, err := recording.Read(path, nil, table)
	if err != nil {
		tb.Fatal(err)
	}
	v, _, err := r.Variant(noFiles, offerLab)
	if err != nil {
		tb.Fatal(err)
	}
	v.Policy, v.Types = decide.DefaultPolicy(), types
	return r, v
}

// TestTruth: the replay of a recording of Dovetail's own run costs what that cost, and its pods wait as long.
func TestTruth(t *testing.T) {
	seeds, long := uint64(6), 12*time.Hour
	if testing.Short() {
		seeds, long = 1, 3*time.Hour
	}
	for seed := range seeds {
		l := newLab(t, seed, 6)
		l.churn(time.Hour)
		path := filepath.Join(t.TempDir(), "own.zst")
		l.record(path)
		l.churn(long)
		if err := l.w.Close(); err != nil {
			t.Fatal(err)
		}

		r, v := read(t, path)
		measured, played := replay.Measure(r.Trace, v.Types), replay.Play(r.Trace, v)
		t.Logf("seed %d: cost %.2f, measured %.2f, replayed %.2f; waiting %s and %s; %d steps", seed, l.micro/1e6, float64(measured.Micro)/1e6, float64(played.Micro)/1e6,
			measured.Waiting, played.Waiting, played.Steps)
		if measured.Launched < 10 || measured.Evicted() < 10 {
			t.Errorf("seed %d: %d launches and %d evictions: too few to show anything", seed, measured.Launched, measured.Evicted())
		}
		within := func(what string, have, want, share float64) {
			if math.Abs(have-want) > share*want {
				t.Errorf("seed %d: %s %.3f, want %.3f", seed, what, have, want)
			}
		}
		within("measured cost", float64(measured.Micro), l.micro, 0.01)
		within("replayed cost", float64(played.Micro), float64(measured.Micro), 0.02)
		within("waiting", played.Waiting.Minutes(), measured.Waiting.Minutes(), 0.35)
		if seed == 0 {
			if again := replay.Play(r.Trace, v); !reflect.DeepEqual(again, played) {
				t.Errorf("the second replay is another: %+v, not %+v", again.Figures, played.Figures)
			}
		}
		for _, fault := range played.Faults {
			t.Errorf("seed %d: %s", seed, fault)
		}
	}
}

// TestWriteRecording writes the recording that the tests of the command line and docs/REPLAY.md use, to the file in DOVETAIL_RECORDING.
func TestWriteRecording(t *testing.T) {
	path := os.Getenv("DOVETAIL_RECORDING")
	if path == "" {
		t.Skip("DOVETAIL_RECORDING names no file")
	}
	l := newLab(t, 7, 5)
	l.churn(time.Hour)
	l.record(path)
	l.churn(4 * time.Hour)
	if err := l.w.Close(); err != nil {
		t.Fatal(err)
	}
}
