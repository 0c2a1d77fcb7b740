// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestDemandIsSampled: at each full minute, while it acts or not, what each workload wants, pending pods included; pods
// of Jobs and of nobody are left out, and a minute later the forecast knows it.
func TestDemandIsSampled(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		for i := range 3 {
			b.pod(fmt.Sprint("web-", i), "web")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w := model.Workload{Namespace: "default", Kind: "ReplicaSet", Name: "web"}
		h := b.c.Demand().History(w)
		if h == nil {
			t.Fatal("no history")
		}
		last, replicas, _ := h.Last()
		if replicas != 3 || last != time.Now().Unix()/60 || h.Known() < 9 || h.Known() > 11 {
			t.Errorf("%d replicas in minute %d of %d known, want 3 in the last of ten", replicas, last, h.Known())
		}
		if f, ok := b.c.Demand().Forecast(w, time.Now(), 3, 0.9); !ok || f.Why != forecast.TooLittleHistory || f.Replicas != 3 {
			t.Errorf("forecast %+v, %t", f, ok)
		}
		if h := b.c.Demand().History(model.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}); h != nil {
			t.Error("a workload that was never there has a history")
		}
	})
}
