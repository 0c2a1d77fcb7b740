// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"io"
	"os"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/record"
)

// withoutTemplate are workloads whose pods are recorded, and their templates are not: no pod can be made of them.
var withoutTemplate = []string{"Deployment", "ReplicaSet", "StatefulSet"}

// readRecording reads the objects at the end of a recording into m. is: the file is a recording.
func readRecording(m *manifests.Set, path string) (is bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, nil // who reads it otherwise says what is wrong
	}
	head := make([]byte, 4)
	_, err = io.ReadFull(f, head)
	_ = f.Close() // it was only read
	if err != nil || !record.IsRecording(head) {
		return false, nil
	}
	objects, report, err := record.Objects(path)
	if err != nil {
		return true, err
	}
	if report.To.After(m.At) {
		m.At = report.To
	}
	for _, p := range report.Problems {
		m.Assumed = append(m.Assumed, "unreadable data in "+p.String())
	}
	for _, o := range objects {
		if slices.Contains(withoutTemplate, o.Kind) {
			continue
		}
		if err := m.Read(path+": "+o.Kind+" "+o.Key, o.Object); err != nil {
			return true, err
		}
	}
	return true, nil
}
