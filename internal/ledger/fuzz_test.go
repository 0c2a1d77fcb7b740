// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"testing"
	"time"
)

// FuzzRestore: whatever stands in the ConfigMap of past decisions is refused or taken over, what was taken over can be
// asked for and stored again, and it is not larger than a segment may be.
func FuzzRestore(f *testing.F) {
	now := time.Unix(1_760_000_000, 0).UTC()
	seed, err := json.Marshal([]Entry{{At: now, Kind: "create", Subject: "nodeclaim/a"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	for _, s := range []string{"", "null", "[]", "[{}]", "[null]", "{}", `[{"at":"9999-12-31T23:59:59Z"},{"at":"0001-01-01T00:00:00Z"}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{b.Bytes(), []byte(text), b.Bytes()[:b.Len()/2]} {
			h := &History{}
			if err := h.Restore(0, data, now); err != nil && len(h.Entries(time.Time{}, nil)) > 0 {
				t.Errorf("refused, and taken over: %v", err)
			}
			h.Add(Entry{At: now, Kind: "create", Subject: "nodeclaim/b"})
			stored, err := h.Unstored(now)
			if err != nil || len(stored) == 0 {
				t.Fatalf("after that nothing can be stored: %v", err)
			}
		}
	})
}
