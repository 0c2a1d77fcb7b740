// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
)

// landingFlags say how pods come onto the nodes that were bought for them.
type landingFlags struct {
	mode       string
	schedulers []string
	exact      bool // --exact-landing, which --landing has replaced
}

// landings are the values of --landing.
var landings = []string{string(landing.Bind), string(landing.Tolerate), string(landing.Off)}

func (f *landingFlags) add(g *pflag.FlagSet) {
	p := decide.DefaultPolicy()
	g.StringVar(&f.mode, "landing", string(p.Landing.Mode), "How pods are placed on the nodes launched for them: bind (Dovetail binds them when the node is Ready, except pods that only kube-scheduler can place), "+
		"tolerate (pods get a toleration, kube-scheduler binds them), off (nodes are not reserved)")
	g.StringSliceVar(&f.schedulers, "landing-schedulers", p.Landing.Schedulers, "Schedulers (spec.schedulerName) whose pods Dovetail may bind")
	g.BoolVar(&f.exact, "exact-landing", true, "Deprecated: false is the same as --landing=off")
	if err := g.MarkDeprecated("exact-landing", "use --landing=off instead of --exact-landing=false"); err != nil {
		panic(err) // there is no such flag
	}
}

// into sets what a policy says of landing.
func (f *landingFlags) into(p *decide.Policy) error {
	if !slices.Contains(landings, f.mode) {
		return exit{2, fmt.Errorf("--landing %q: use %s", f.mode, strings.Join(landings, ", "))}
	}
	if f.mode == string(landing.Bind) && len(f.schedulers) == 0 || slices.Contains(f.schedulers, "") {
		return exit{2, errors.New("--landing-schedulers: an empty name; name at least one scheduler, such as default-scheduler, or use --landing=tolerate")}
	}
	p.Landing = landing.Policy{Mode: landing.Mode(f.mode), Schedulers: f.schedulers}
	if !f.exact {
		p.Landing.Mode = landing.Off
	}
	return nil
}
