// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// account writes what the sandbox's processes have taken: who else is busy says whose wait it is.
func (o *liveOutcome) account(s *sandbox.Sandbox, floor bool) error {
	st, err := s.State()
	if err != nil {
		return err
	}
	o.Processor = map[string]float64{}
	for _, c := range st.Components {
		if o.Processor[c.Name], err = sandbox.ProcessorSeconds(c.PID); err != nil {
			return fmt.Errorf("CPU time of %s: %w", c.Name, err)
		}
	}
	if floor {
		return nil
	}
	all, err := s.Components(sandbox.Controller)
	if err != nil {
		return err
	}
	peak, err := sandbox.PeakMemoryMiB(all[0].PID)
	if err != nil {
		return err
	}
	o.Peak = math.Round(peak)
	o.LongestStep, err = longestStep(all[0])
	return err
}

// longestStep is the bound of the highest bucket that a decision of this controller is in, in milliseconds.
func longestStep(c sandbox.Component) (float64, error) {
	body, err := askController(context.Background(), c, "/metrics")
	if err != nil {
		return 0, err
	}
	defer body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of %s: %w", c.Name, err)
	}
	longest := 0.0
	for _, m := range families["karpenter_scheduler_scheduling_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		for _, b := range h.GetBucket() {
			if b.GetCumulativeCount() == h.GetSampleCount() {
				longest = max(longest, b.GetUpperBound())
				break
			}
		}
	}
	return 1000 * longest, nil
}

// profileTime is as long as the ordinary pods take to be made.
const profileTime = livePods * livePause

// profileController writes a CPU profile of the controller into a file.
func profileController(ctx context.Context, s *sandbox.Sandbox, file string) error {
	all, err := s.Components(sandbox.Controller)
	if err != nil {
		return err
	}
	body, err := askController(ctx, all[0], fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileTime/time.Second))
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, body); err != nil {
		return fmt.Errorf("profile %s: %w", all[0].Name, err)
	}
	return nil
}

// askController asks for what a controller serves on its metrics address.
func askController(ctx context.Context, c sandbox.Component, path string) (io.ReadCloser, error) {
	url := fmt.Sprintf("http://127.0.0.1:%d%s", c.Ports["metrics"], path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		said, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, fmt.Errorf("ask %s: %s: %w", c.Name, resp.Status, err)
		}
		return nil, fmt.Errorf("ask %s: GET %s: %s: %s", c.Name, url, resp.Status, strings.TrimSpace(string(said)))
	}
	return resp.Body, nil
}
