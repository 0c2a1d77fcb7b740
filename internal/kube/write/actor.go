// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"crypto/sha256"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Actor carries out the actions of a plan. Each method does one action and answers the resource version that shows its effect, 0
// where there is none to wait for. An error wraps one of plan's where one applies: ErrGone, ErrConflict, ErrBlocked, ErrInvalid;
// any other means that the same call may work later. Methods may be called from several goroutines.
type Actor struct {
	c   *client.Client
	t   *translate.Translator
	now func() time.Time

	events *recorder
}

// NewActor makes an Actor that uses what Watch has seen of the same Client and writes by the same translation. now dates the
// conditions it writes.
func NewActor(c *client.Client, t *translate.Translator, now func() time.Time) *Actor {
	return &Actor{
		c: c, t: t, now: now,
		events: &recorder{c: c, now: now, last: map[[sha256.Size]byte]time.Time{}, queue: fairEvents{most: eventQueue}, tokens: eventBurst, filled: now()},
	}
}

func deleteOptions(uid string, grace *int64) *metav1.DeleteOptions {
	out := &metav1.DeleteOptions{GracePeriodSeconds: grace}
	out.APIVersion, out.Kind = "v1", "DeleteOptions"
	if uid != "" {
		u := types.UID(uid)
		out.Preconditions = &metav1.Preconditions{UID: &u}
	}
	return out
}
