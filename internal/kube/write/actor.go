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

// Actor executes the actions of a plan. Each method executes one action and returns the resource version that shows its
// effect, 0 if there is none to wait for. Errors wrap ErrGone, ErrConflict, ErrBlocked or ErrInvalid of package plan if
// one applies; after any other error the same call may succeed later. Methods are safe for concurrent use.
type Actor struct {
	c   *client.Client
	t   *translate.Translator
	now func() time.Time

	events *recorder
}

// NewActor returns an Actor that reads what Watch has seen of the same Client, and writes with the same translation. now
// returns the time for the conditions that it writes.
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
