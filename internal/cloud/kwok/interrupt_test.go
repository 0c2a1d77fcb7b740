// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// A notice comes until it is taken note of, and then no more; the machine goes when it said.
func TestInterruptions(t *testing.T) {
	s := serve(t, smallCatalogue(t))
	p := s.provider()
	res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "a", ClaimUID: "uid-a", Class: class(`{}`), Types: []string{"m5.large"}}})
	if res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	s.fault(machines.Fault{Kind: machines.Interrupt, Delay: machines.Duration(time.Second)})
	source, ok := cloud.As[cloud.Interrupter](p)
	if !ok {
		t.Fatal("the provider tells of no interruptions")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan cloud.Interruption, 10)
	ended := make(chan error, 1)
	go func() {
		n := 0
		ended <- source.Interruptions(ctx, func(_ context.Context, i cloud.Interruption) error {
			got <- i
			if n++; n == 1 {
				return errors.New("not now")
			}
			return nil
		})
	}()
	for range 2 {
		i := testwait.Receive(t, "a notice, which comes twice", got)
		if i.ProviderID != res[0].ProviderID || i.Kind != "SpotInterruption" || i.At.Sub(i.Sent) != time.Second {
			t.Errorf("have %+v", i)
		}
	}
	testwait.Until(t, "the machine is gone", func() error {
		list, err := p.List(t.Context())
		if err == nil && len(list) > 0 && !list[0].Gone {
			err = fmt.Errorf("the list is %+v", list)
		}
		return err
	})
	cancel()
	if err := testwait.Receive(t, "the end of Interruptions", ended); !errors.Is(err, context.Canceled) && err != nil && cloud.KindOf(err) != cloud.Unknown {
		t.Errorf("ended with %v", err)
	}
	if len(got) > 0 {
		t.Errorf("told again: %+v", <-got)
	}
	var left machines.InterruptionList
	s.do(http.MethodGet, "/v1/interruptions", nil, &left)
	if len(left.Interruptions) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A machine has drifted when its node class's spec is another, and not when it only reads differently or nothing is known of it.
func TestDrift(t *testing.T) {
	s := serve(t, smallCatalogue(t))
	p := s.provider()
	res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "a", ClaimUID: "uid-a", Class: class(`{"nodeRegistrationDelay":"0s"}`), Types: []string{"m5.large"}}})
	if res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	drifter, ok := cloud.As[cloud.Drifter](p)
	if !ok {
		t.Fatal("the provider tells of no drift")
	}
	bought := &model.Claim{Name: "a", Annotations: res[0].Annotations}
	have, err := drifter.Drifted(t.Context(), []cloud.DriftQuery{
		{Claim: bought, Class: class(`{ "nodeRegistrationDelay": "0s" }`)},
		{Claim: bought, Class: class(`{"nodeRegistrationDelay":"1s"}`)},
		{Claim: &model.Claim{Name: "old"}, Class: class(`{"nodeRegistrationDelay":"1s"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if have[0] != "" || have[1] != "NodeClassDrift" || have[2] != "" {
		t.Errorf("have %q", have)
	}
}
