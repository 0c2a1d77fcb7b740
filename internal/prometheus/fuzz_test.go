// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package prometheus

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// FuzzAnswer: whatever a server answers is an error, or a number of replicas for each minute.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[6000,"1"],[6060.5,"NaN"],[1e300,"1"]]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[]}}`, `{"status":"error","errorType":"bad_data","error":"x"}`, `{"status":"success"}`, "<html>", "", "null",
		`{"status":"success","data":{"resultType":"matrix","result":[{"histograms":[[6000,{"count":"1","sum":"1","buckets":[[0,"a","b","c"]]}]]}]}}`,
	} {
		f.Add(s)
	}
	var body atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(*body.Load())) }))
	f.Cleanup(server.Close)
	s, err := Connect(server.URL)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		body.Store(&answer)
		got, err := s.Replicas(testwait.Context(t), web, 100, 104)
		if err != nil {
			return
		}
		if len(got) != 5 {
			t.Fatalf("%v", got)
		}
		for _, n := range got {
			if n < -1 {
				t.Errorf("%v", got)
			}
		}
	})
}
