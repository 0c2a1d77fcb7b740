// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// maxBody bounds a request: some ten thousand launches.
const maxBody = 64 << 20

func (s *Server) renderOfferings(c *catalog.Catalog) error {
	b, err := json.Marshal(offeringList(c))
	if err != nil {
		return fmt.Errorf("encode catalog %s: %w", c.Name, err)
	}
	sum := sha256.Sum256(b)
	s.offerings, s.offeringsTag = b, `"`+hex.EncodeToString(sum[:8])+`"`
	return nil
}

// Handler returns the handler of the protocol of package machines. Serve serves it.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("POST /v1/launch", s.faulty(machines.CallLaunch, s.launch))
	mux.HandleFunc("GET /v1/instances", s.faulty(machines.CallInstances, s.instances))
	mux.HandleFunc("POST /v1/terminate", s.faulty(machines.CallTerminate, s.terminate))
	mux.HandleFunc("POST /v1/reboot", s.faulty(machines.CallReboot, s.reboot))
	mux.HandleFunc("GET /v1/offerings", s.faulty(machines.CallOfferings, s.listOfferings))
	mux.HandleFunc("GET /v1/journal", s.listJournal)
	mux.HandleFunc("POST /v1/faults", s.addFaults)
	mux.HandleFunc("GET /v1/faults", s.listFaults)
	mux.HandleFunc("DELETE /v1/faults", s.clearFaults)
	mux.HandleFunc("GET /v1/interruptions", s.interruptions)
	mux.HandleFunc("POST /v1/interruptions", s.noticed)
	mux.HandleFunc("POST /v1/base-node", s.baseNode)
	return mux
}

// faulty lets calls be stalled, throttled and left without an answer.
func (s *Server) faulty(call string, serve http.HandlerFunc) http.HandlerFunc {
	take := func(kind string) (machines.Fault, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.model.CallFault(kind, call, s.clock.Now())
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if f, ok := take(machines.Stall); ok {
			// The body first: a server notices that its caller has gone only when there is nothing left to read.
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				refuse(w, cloud.Denied, fmt.Errorf("read request: %w", err))
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			if s.clock.Wait(r.Context(), time.Duration(f.Delay)) != nil {
				return
			}
		}
		if f, ok := take(machines.Throttle); ok {
			answer(w, http.StatusTooManyRequests, machines.ErrorAnswer{Error: machines.Error{Kind: cloud.Throttled, Message: "too many calls", After: f.Delay}})
			return
		}
		if _, ok := take(machines.LostReply); ok {
			serve(nowhere{http.Header{}}, r)
			panic(http.ErrAbortHandler) // closes the connection
		}
		serve(w, r)
	}
}

// nowhere is a ResponseWriter that discards the response.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// changeEach carries out the requests of a batch in order, as one change of the model, and returns their results in that order.
func changeEach[Request, Result any](s *Server, requests []Request, do func(*Model, Request, time.Time) Result) ([]Result, error) {
	results := make([]Result, len(requests))
	err := s.change(true, func(m *Model, now time.Time) {
		for i, r := range requests {
			results[i] = do(m, r, now)
		}
	})
	return results, err
}

func (s *Server) launch(w http.ResponseWriter, r *http.Request) {
	var batch machines.LaunchBatch
	if !read(w, r, &batch) {
		return
	}
	results, err := changeEach(s, batch.Requests, (*Model).Launch)
	reply(w, machines.LaunchAnswer{Results: results}, err)
}

func (s *Server) terminate(w http.ResponseWriter, r *http.Request) {
	var batch machines.TerminateBatch
	if !read(w, r, &batch) {
		return
	}
	results, err := changeEach(s, batch.ProviderIDs, (*Model).Terminate)
	reply(w, machines.TerminateAnswer{Results: results}, err)
}

func (s *Server) reboot(w http.ResponseWriter, r *http.Request) {
	var req machines.RebootRequest
	if !read(w, r, &req) {
		return
	}
	var in *machines.Instance
	var wrong *machines.Error
	err := s.change(true, func(m *Model, now time.Time) { in, wrong = m.Reboot(req.ProviderID, now) })
	replyOr(w, in, wrong, err)
}

func (s *Server) baseNode(w http.ResponseWriter, r *http.Request) {
	var req machines.BaseNode
	if !read(w, r, &req) {
		return
	}
	var in *machines.Instance
	var wrong *machines.Error
	err := s.change(true, func(m *Model, now time.Time) { in, wrong = m.Base(req, now) })
	replyOr(w, in, wrong, err)
}

func (s *Server) instances(w http.ResponseWriter, r *http.Request) {
	var out machines.InstanceList
	err := s.change(false, func(m *Model, now time.Time) { out.Instances = m.List(r.URL.Query().Get("all") == "true", now) })
	reply(w, out, err)
}

func (s *Server) listOfferings(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", s.offeringsTag)
	if r.Header.Get("If-None-Match") == s.offeringsTag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(s.offerings)
}

func (s *Server) listJournal(w http.ResponseWriter, r *http.Request) {
	after := int64(0)
	if q := r.URL.Query().Get("after"); q != "" {
		var err error
		if after, err = strconv.ParseInt(q, 10, 64); err != nil {
			refuse(w, cloud.Denied, fmt.Errorf("after: %q: need a number", q))
			return
		}
	}
	s.mu.Lock()
	broken, lines := s.broken, bufio.NewReader(s.journal.reader())
	s.mu.Unlock()
	if broken != nil {
		refuse(w, cloud.Unknown, broken)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	// Records are numbered without gaps, one a line; from 1, or from the one that stands for all before it.
	for n := int64(0); ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if n == 0 {
			var first struct {
				Seq int64 `json:"seq"`
			}
			if json.Unmarshal(line, &first) != nil {
				return
			}
			n = first.Seq
		}
		if n > after {
			w.Write(line)
		}
	}
}

func (s *Server) addFaults(w http.ResponseWriter, r *http.Request) {
	var list machines.FaultList
	if !read(w, r, &list) {
		return
	}
	for i, f := range list.Faults {
		if err := f.Validate(); err != nil {
			refuse(w, cloud.Denied, fmt.Errorf("faults[%d]: %w", i, err))
			return
		}
	}
	err := s.change(true, func(m *Model, now time.Time) {
		for _, f := range list.Faults {
			_ = m.AddFault(f, now) // valid, see above
		}
		list.Faults = m.Faults(now)
	})
	reply(w, list, err)
}

func (s *Server) listFaults(w http.ResponseWriter, _ *http.Request) {
	var list machines.FaultList
	err := s.change(false, func(m *Model, now time.Time) { list.Faults = m.Faults(now) })
	reply(w, list, err)
}

func (s *Server) clearFaults(w http.ResponseWriter, _ *http.Request) {
	err := s.change(false, func(m *Model, _ time.Time) { m.ClearFaults() })
	reply(w, machines.FaultList{Faults: []machines.Fault{}}, err)
}

// read decodes the body of a request and rejects an invalid one.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		refuse(w, cloud.Denied, fmt.Errorf("read request: %w", err))
		return false
	}
	return true
}

// replyOr is reply for a call that the model may refuse.
func replyOr(w http.ResponseWriter, out any, wrong *machines.Error, err error) {
	if wrong != nil && err == nil {
		refuse(w, wrong.Kind, errors.New(wrong.Message))
		return
	}
	reply(w, out, err)
}

func reply(w http.ResponseWriter, out any, err error) {
	if err != nil {
		refuse(w, cloud.Unknown, err)
		return
	}
	answer(w, http.StatusOK, out)
}

func refuse(w http.ResponseWriter, kind cloud.Kind, err error) {
	status := http.StatusInternalServerError
	switch kind {
	case cloud.Denied:
		status = http.StatusBadRequest
	case cloud.NotFound:
		status = http.StatusNotFound
	case cloud.NotReady:
		status = http.StatusServiceUnavailable
	}
	answer(w, status, machines.ErrorAnswer{Error: machines.Error{Kind: kind, Message: err.Error()}})
}

func answer(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // whoever asked has gone
}
