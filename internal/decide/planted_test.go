// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// WhyText is an answer in words, as people are given it.
var WhyText func(*plan.Answer) string

// planted tells of the reasons of a code in the answer about a subject, of which there must be one, as data and in the words
// that people are given, and tries the change that is offered with each.
func (x *script) planted(subject string, code plan.Code) {
	fmt.Fprintf(&x.out, "planted %s\n", subject)
	snap := x.st.Snapshot(x.now)
	a, err := Why(snap, x.mem, x.now, x.pol, subject)
	if err != nil {
		x.t.Errorf("%s: %v", subject, err)
		return
	}
	var found []plan.Finding
	for _, f := range a.Findings {
		if f.Reason.Code != code {
			continue
		}
		found = append(found, f)
		fmt.Fprintf(&x.out, "  %s %s\n", f.Of, reason(f.Reason))
		if !f.Until.IsZero() {
			fmt.Fprintf(&x.out, "    until +%s\n", f.Until.Sub(epoch))
			if b, err := Why(snap, x.mem, f.Until, x.pol, subject); err == nil && hasFinding(&b, f) {
				x.t.Errorf("%s: %s is still there at +%s", subject, reason(f.Reason), f.Until.Sub(epoch))
			}
		}
		if f.Change == nil {
			continue
		}
		fmt.Fprintf(&x.out, "    %s\n", changeText(*f.Change))
		next, err := Apply(snap, *f.Change)
		if err != nil {
			x.t.Errorf("%s: %s: %v", subject, changeText(*f.Change), err)
			continue
		}
		if b, err := Why(next, x.mem, x.now, x.pol, subject); err == nil && hasFinding(&b, f) {
			x.t.Errorf("%s: %s leaves %s", subject, changeText(*f.Change), reason(f.Reason))
		}
	}
	if len(found) == 0 {
		var have []string
		for _, f := range a.Findings {
			have = append(have, string(f.Of)+" "+reason(f.Reason))
		}
		x.t.Errorf("%s: %s is not named; %s", subject, code, strings.Join(have, "; "))
	}
	told := a
	told.Findings, told.Facts, told.Alternatives, told.Ways = found, nil, nil, nil
	for line := range strings.Lines(WhyText(&told)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, subject) {
			fmt.Fprintf(&x.out, "  | %s\n", line)
		}
	}
}

// hasFinding reports whether an answer has the same finding.
func hasFinding(a *plan.Answer, f plan.Finding) bool {
	for _, g := range a.Findings {
		if g.Of == f.Of && g.Reason.IsSameCheck(f.Reason) && g.Reason.About() == f.Reason.About() {
			return true
		}
	}
	return false
}

// ended tells that no reason of a code is in the answer about a subject any more.
func (x *script) ended(subject string, code plan.Code) {
	fmt.Fprintf(&x.out, "ended %s\n", subject)
	a, err := Why(x.st.Snapshot(x.now), x.mem, x.now, x.pol, subject)
	if err != nil {
		return // the object is gone
	}
	for _, f := range a.Findings {
		if f.Reason.Code == code {
			x.t.Errorf("%s: %s is still named: %s", subject, code, reason(f.Reason))
		}
	}
}

// TestPlantedCauses holds that testdata/planted.txt has as many planted causes as it should, each of which is named and
// ends with what ends it.
func TestPlantedCauses(t *testing.T) {
	data, err := os.ReadFile("testdata/planted.txt")
	if err != nil {
		t.Fatal(err)
	}
	const least = 60
	cases, codes := 0, map[string]bool{}
	for _, text := range strings.Split(string(data), "\n====\n") {
		input, _, _ := strings.Cut(text, "\n----\n")
		named, ends := false, false
		for _, line := range strings.Split(input, "\n") {
			f := strings.Fields(line)
			switch {
			case len(f) == 3 && f[0] == "planted":
				named, codes[f[2]] = true, true
			case len(f) == 3 && f[0] == "ended":
				ends = named
			}
		}
		if !named || !ends {
			t.Errorf("a cause is not planted, or not ended:\n%s", input)
		}
		cases++
	}
	t.Logf("%d planted causes, %d codes", cases, len(codes))
	if cases < least {
		t.Errorf("%d planted causes, want %d", cases, least)
	}
}
