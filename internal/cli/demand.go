// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/decide"
)

// Values of --preference-policy.
const (
	respect = "Respect"
	ignore  = "Ignore"
)

// Values of --min-values-policy.
const (
	strict     = "Strict"
	bestEffort = "BestEffort"
)

// demandFlags are the flags for what pods and NodePools ask for without insisting on it.
type demandFlags struct{ preferences, minValues string }

func (f *demandFlags) add(g *pflag.FlagSet) {
	g.StringVar(&f.preferences, "preference-policy", respect, "How to treat pod preferences: Respect (satisfy them if worth the price) or Ignore (PREFERENCE_POLICY)")
	g.StringVar(&f.minValues, "min-values-policy", strict, "How to treat minValues that cannot be met: Strict (launch nothing) or BestEffort (launch with the values available) (MIN_VALUES_POLICY)")
}

// into sets what the flags say in a policy.
func (f *demandFlags) into(pol *decide.Policy) error {
	switch f.preferences {
	case respect:
	case ignore:
		pol.Solve.PreferencePPM = 0
	default:
		return exit{2, fmt.Errorf("--preference-policy %q: use Respect or Ignore", f.preferences)}
	}
	if f.minValues != strict && f.minValues != bestEffort {
		return exit{2, fmt.Errorf("--min-values-policy %q: use Strict or BestEffort", f.minValues)}
	}
	pol.RelaxMinValues = f.minValues == bestEffort
	return nil
}
