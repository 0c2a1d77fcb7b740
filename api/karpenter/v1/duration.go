// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	"encoding/json"
	"fmt"
	"time"
)

// Never is the spelling of a NillableDuration that is not there.
const Never = "Never"

// NillableDuration is a duration or Never. Its zero value is Never.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
type NillableDuration struct {
	// Duration is nil for Never.
	Duration *time.Duration

	// Text is the spelling that was read and is written again unchanged, so that a GitOps tool that wrote "720h" never sees
	// "720h0m0s" come back. It is empty in a value made in Go and is no part of what the duration means.
	Text string `hash:"ignore"`
}

// NillableDurationOf is d as a NillableDuration.
func NillableDurationOf(d time.Duration) NillableDuration { return NillableDuration{Duration: &d} }

// UnmarshalJSON reads a Go duration or Never.
func (d *NillableDuration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("read duration %s: %w", b, err)
	}
	*d = NillableDuration{}
	if text == Never {
		return nil
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("read duration %q: want hours, minutes and seconds such as 1h30m, or %s: %w", text, Never, err)
	}
	d.Duration, d.Text = &v, text
	return nil
}

// MarshalJSON writes the spelling that was read, else Go's spelling of the duration, or Never.
func (d NillableDuration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// ToUnstructured is the value that apimachinery's unstructured converter takes.
func (d NillableDuration) ToUnstructured() any { return d.String() }

// String is what MarshalJSON writes, unquoted.
func (d NillableDuration) String() string {
	switch {
	case d.Duration == nil:
		return Never
	case d.Text != "":
		return d.Text
	default:
		return d.Duration.String()
	}
}

// OpenAPISchemaType says that the wire form is a string.
func (NillableDuration) OpenAPISchemaType() []string { return []string{"string"} }

// OpenAPISchemaFormat says that no OpenAPI format fits.
func (NillableDuration) OpenAPISchemaFormat() string { return "" }
