// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Account is where the time of something measured went: on machines of few cores that is processor time, and most of it follows from what
// is written.
type Account struct {
	ProcessorSeconds map[string]float64 `json:"processorSeconds"` // by process of the sandbox; "test" is this one
	Sum              float64            `json:"processorSecondsSum"`
	Writes           map[string]int     `json:"writes"` // requests that kube-apiserver answered, by verb, resource and, where refused, code
	WritesSum        int                `json:"writesSum"`
}

// account reads what was used up to now. The processor time is read last when something begins and first when it ends, since asking for the
// metrics costs kube-apiserver a tenth of a second.
func (r *rig) account(ctx context.Context, begins bool) (*Account, error) {
	a := &Account{}
	steps := []func(context.Context, *Account) error{r.processors, r.writes}
	if begins {
		steps = []func(context.Context, *Account) error{r.writes, r.processors}
	}
	for _, step := range steps {
		if err := step(ctx, a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// less is what was used after an earlier account.
func (a *Account) less(before *Account) *Account {
	out := &Account{ProcessorSeconds: map[string]float64{}, Writes: map[string]int{}}
	for k, v := range a.ProcessorSeconds {
		out.ProcessorSeconds[k] = round(v - before.ProcessorSeconds[k])
		out.Sum = round(out.Sum + v - before.ProcessorSeconds[k])
	}
	for k, n := range a.Writes {
		if n -= before.Writes[k]; n > 0 {
			out.Writes[k] = n
			out.WritesSum += n
		}
	}
	return out
}

// processors reads the processor time of every process of the sandbox and of this one.
func (r *rig) processors(_ context.Context, a *Account) error {
	st, err := r.s.State()
	if err != nil {
		return err
	}
	pids := map[string]int{"test": os.Getpid()}
	for _, c := range st.Components {
		pids[c.Name] = c.PID
	}
	a.ProcessorSeconds = map[string]float64{}
	for name, pid := range pids {
		if a.ProcessorSeconds[name], err = sandbox.ProcessorSeconds(pid); err != nil {
			return fmt.Errorf("CPU time of %s: %w", name, err)
		}
	}
	return nil
}

// writes reads from kube-apiserver's metrics what it was asked to write.
func (r *rig) writes(ctx context.Context, a *Account) error {
	text, err := r.s.Kube.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("read kube-apiserver's metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read kube-apiserver's metrics: %w", err)
	}
	a.Writes = map[string]int{}
	requests := families["apiserver_request_total"]
	if requests == nil {
		return errors.New("kube-apiserver's metrics have no apiserver_request_total")
	}
	for _, m := range requests.GetMetric() {
		l := map[string]string{}
		for _, p := range m.GetLabel() {
			l[p.GetName()] = p.GetValue()
		}
		switch l["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		key := l["verb"] + " " + l["resource"]
		if l["subresource"] != "" {
			key += "/" + l["subresource"]
		}
		if !strings.HasPrefix(l["code"], "2") {
			key += " " + l["code"]
		}
		a.Writes[key] += int(m.GetCounter().GetValue())
	}
	return nil
}
