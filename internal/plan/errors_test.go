// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "testing"

// TestWriteReport: the annotations of an event contain its report, whatever its texts are.
func TestWriteReport(t *testing.T) {
	for _, w := range []WriteReport{{Write: "delete this Node"}, {Write: "update the taints and status of this Node", Others: 3, Refusal: "admission webhook \"a: b and 2 others\" denied: no"}} {
		if got, ok := ReadWriteReport(w.Annotations()); !ok || got != w {
			t.Errorf("read %+v, %t, want %+v", got, ok, w)
		}
	}
	if got, ok := ReadWriteReport(map[string]string{"a": "b"}); ok {
		t.Errorf("of another event, read %+v", got)
	}
}
