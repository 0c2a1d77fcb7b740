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
	"github.com/dovetail-sh/dovetail/internal/model"
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

// TestTruth: the replay of a recording of all of Dovetail's own run makes its decisions again, though the recorded controller waited another time for
// more changes. In some runs a decision depends on that wait, and all later ones differ with it: at most a third of the runs may be so, and cost and waiting
// time stay near. Soaks are of controllers that wait equally long: over 12 hours, such a decision is likely, and none may differ.
func TestTruth(t *testing.T) {
	seeds, long, soak := uint64(6), 3*time.Hour, os.Getenv("DOVETAIL_SOAK") != ""
	if soak {
		seeds, long = 24, 12*time.Hour
	}
	differing := uint64(0)
	for seed := range seeds {
		l := newLab(t, seed, 6)
		l.addSets()
		l.jitters = !soak
		played, measured, own := playAgain(t, l, long)
		a := replay.Agree(own, played.Decisions)
		t.Logf("seed %d: of %d decisions %d the same and %d at another time, %d more; cost %.2f, measured %.2f, replayed %.2f; waiting %s and %s; %d steps", seed,
			a.Recorded, a.Same, a.Shifted, a.Added, l.micro/1e6, float64(measured.Micro)/1e6, float64(played.Micro)/1e6, measured.Waiting, played.Waiting, played.Steps)
		near(t, "measured cost", float64(measured.Micro), l.micro, 0.01)
		costs, waits := 0.01, 0.05
		if a.Recorded < 20 || a.Same < (a.Recorded*99+99)/100 || a.Added > a.Recorded/100 {
			t.Logf("seed %d: %d of %d decisions are the same; %d are more; others: %v", seed, a.Same, a.Recorded, a.Added, a.Differing)
			differing++
			costs, waits = 0.1, 0.25
		}
		near(t, "replayed cost", float64(played.Micro), float64(measured.Micro), costs)
		near(t, "waiting", played.Waiting.Minutes(), measured.Waiting.Minutes(), waits)
	}
	if soak && differing > 0 || differing > seeds/3 {
		t.Errorf("decisions of %d of %d runs differ", differing, seeds)
	}
}

// TestPace: a replay that decides twice a minute while only pods change decides far less often, and comes to about the same.
func TestPace(t *testing.T) {
	l := newLab(t, 2, 6)
	l.addSets()
	r, v := recorded(t, l, 3*time.Hour)
	r.Trace.Own = false // it decides as often as the controller does
	often := replay.Play(r.Trace, v)
	v.Pace = 30 * time.Second
	paced := replay.Play(r.Trace, v)
	t.Logf("%d steps and %d; cost %.2f and %.2f, waiting %s and %s, %d evictions and %d", often.Steps, paced.Steps, float64(often.Micro)/1e6, float64(paced.Micro)/1e6,
		often.Waiting, paced.Waiting, often.Evicted(), paced.Evicted())
	if paced.Steps >= often.Steps*3/4 || len(paced.Faults) > 0 || paced.Restless > 0 {
		t.Errorf("%d steps instead of %d, %d times restless, %v", paced.Steps, often.Steps, paced.Restless, paced.Faults)
	}
	near(t, "cost", float64(paced.Micro), float64(often.Micro), 0.05)
	near(t, "waiting", paced.Waiting.Minutes(), often.Waiting.Minutes(), 0.25)
}

// TestTruthMidway: a replay that begins in the middle of a run has not learned what Dovetail had by then, so that it decides otherwise. It still
// costs about as much.
func TestTruthMidway(t *testing.T) {
	seeds, long := uint64(1), 2*time.Hour
	if os.Getenv("DOVETAIL_SOAK") != "" {
		seeds, long = 3, 12*time.Hour
	}
	for seed := range seeds {
		l := newLab(t, seed, 6)
		l.churn(time.Hour)
		played, measured, _ := playAgain(t, l, long)
		near(t, "measured cost", float64(measured.Micro), l.micro, 0.01)
		near(t, "replayed cost", float64(played.Micro), float64(measured.Micro), 0.03)
	}
}

// TestTruthFromALaunch: a replay that begins while a NodeClaim waits for its machine launches that machine, with the identity that was recorded.
func TestTruthFromALaunch(t *testing.T) {
	r, v := recorded(t, newLab(t, 1, 6), time.Hour)
	var first *replay.Claim
	for _, x := range r.Trace.Claims {
		if !x.First && x.Node != nil && x.Gone.IsZero() {
			first = x
			break
		}
	}
	if first == nil {
		t.Fatal("no NodeClaim stays")
	}
	first.First = true
	claim := *first.Claim
	claim.Created, claim.ProviderID, claim.NodeName, claim.Conditions = r.Trace.From, "", "", map[string]model.Condition{}
	first.Claim = &claim
	played := replay.Play(r.Trace, v)
	if len(played.Faults) > 0 {
		t.Error(played.Faults)
	}
	if played.Launched == 0 {
		t.Error("nothing was launched")
	}
}

// recorded records a lab for so long, and reads the recording.
func recorded(t *testing.T, l *lab, long time.Duration) (*recording.Recording, *replay.Variant) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.zst")
	l.record(path)
	l.churn(long)
	if err := l.w.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

// playAgain records a lab for so long, and replays the recording.
func playAgain(t *testing.T, l *lab, long time.Duration) (*replay.Result, *replay.Figures, []replay.Decision) {
	t.Helper()
	r, v := recorded(t, l, long)
	measured, played := replay.Measure(r.Trace, v.Types), replay.Play(r.Trace, v)
	if measured.Launched < 10 || measured.Evicted() < 10 {
		t.Errorf("%d launches and %d evictions: too few to show anything", measured.Launched, measured.Evicted())
	}
	if os.Getenv("DOVETAIL_SOAK") == "" {
		if again := replay.Play(r.Trace, v); !reflect.DeepEqual(again, played) {
			t.Errorf("the second replay is another: %+v, not %+v", again.Figures, played.Figures)
		}
	}
	for _, fault := range played.Faults {
		t.Error(fault)
	}
	return played, measured, r.Trace.Decisions()
}

func near(t *testing.T, what string, have, want, share float64) {
	t.Helper()
	if math.Abs(have-want) > share*want {
		t.Errorf("%s %.3f, want %.3f", what, have, want)
	}
}

// TestWriteRecording writes the recording that the tests of the command line and docs/REPLAY.md use, to the file in DOVETAIL_RECORDING.
func TestWriteRecording(t *testing.T) {
	path := os.Getenv("DOVETAIL_RECORDING")
	if path == "" {
		t.Skip("DOVETAIL_RECORDING names no file")
	}
	l := newLab(t, 7, 5)
	l.record(path)
	l.churn(4 * time.Hour)
	if err := l.w.Close(); err != nil {
		t.Fatal(err)
	}
}
