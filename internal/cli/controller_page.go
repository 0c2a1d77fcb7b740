// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/top"
	"github.com/dovetail-sh/dovetail/internal/web"
)

const (
	pageLooks = 2 * time.Second // how old the cluster may be on the page
	pageLimit = 10 * time.Second
)

// controllerPage is what the controller's page shows: what the controller itself sees, so that looking costs the API server
// nothing. It is put together when somebody looks.
type controllerPage struct {
	ctl     *controller.Controller
	client  *client.Client
	samples *web.Samples

	mu    sync.Mutex
	board *top.Board // replaced, never changed
	view  *top.View
	at    time.Time
}

func newControllerPage(ctl *controller.Controller, cluster *client.Client) *controllerPage {
	p := &controllerPage{ctl: ctl, client: cluster, samples: &web.Samples{}}
	p.board = top.NewBoard(p.cluster(), top.Prices{})
	p.view = p.board.View(time.Now())
	return p
}

func (p *controllerPage) cluster() top.Cluster {
	return top.Cluster{Name: p.client.Address, Server: p.client.Address}
}

// sample keeps sums over time until the context ends, also while nobody looks.
func (p *controllerPage) sample(ctx context.Context) {
	tick := time.NewTicker(web.SampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if b, err := p.read(ctx, false); err == nil { // else the cluster is not known yet, or the process ends
				p.samples.Add(b.View(time.Now()))
			}
		}
	}
}

// read puts a board together of what the controller sees, without bound pods and decisions where whole is false.
func (p *controllerPage) read(ctx context.Context, whole bool) (*top.Board, error) {
	snap, err := p.ctl.Look(ctx)
	if err != nil {
		return nil, err
	}
	b := top.NewBoard(p.cluster(), top.Prices{})
	refused := map[string]string{}
	if whole {
		entries := p.ctl.Ledger.Entries(nil)
		for i := range entries {
			if e := &entries[i]; e.Kind == ledger.Refuse && len(e.Why) > 0 {
				if pod, ok := strings.CutPrefix(e.Subject, "pod/"); ok {
					refused[pod] = reasonText(e.Why[0])
				}
			}
		}
		b.SetLedger(ledgerDecisions(entries))
	}
	b.SetSigns("controller", []top.Autoscaler{{Name: top.Dovetail, Sign: "responds"}})
	b.SetSnapshot(snap, refused, whole)
	return b, nil
}

// look returns the cluster as it was two seconds ago at most.
func (p *controllerPage) look() (*top.Board, *top.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.at) < pageLooks {
		return p.board, p.view
	}
	ctx, cancel := context.WithTimeout(context.Background(), pageLimit)
	defer cancel()
	b, err := p.read(ctx, true)
	if err != nil {
		b = top.NewBoard(p.cluster(), top.Prices{})
		b.SetProblem("controller", err.Error())
	}
	p.board, p.view, p.at = b, b.View(now), now
	return p.board, p.view
}

// View implements web.Source.
func (p *controllerPage) View() *top.View {
	_, v := p.look()
	return v
}

// Details implements web.Source.
func (p *controllerPage) Details(ctx context.Context, w io.Writer, subject string) error {
	kind, name, ok := strings.Cut(subject, "/")
	if !ok || name == "" {
		return fmt.Errorf("subject %q: want KIND/NAME, or pod/NAMESPACE/NAME: %w", subject, fs.ErrNotExist)
	}
	board, view := p.look()
	p.mu.Lock() // a board is one caller's at a time
	lines, why := board.Detail(view, subject, detailsWidth), ""
	p.mu.Unlock()
	a, err := p.ctl.Answers.Explain(ctx, subject)
	if err == nil {
		var b bytes.Buffer
		if err := report.WhyText(&b, &a); err != nil {
			return err
		}
		_, why, _ = strings.Cut(b.String(), "\n") // its first line names the object
	}
	if len(lines) == 0 && err != nil {
		return fmt.Errorf("%s %s not found: %w", kind, name, fs.ErrNotExist)
	}
	return writeDetails(w, subject, lines, why)
}

// Report implements web.Source.
func (p *controllerPage) Report(ctx context.Context, w io.Writer, name string, since time.Duration) error {
	switch name {
	case "history":
		h, err := p.ctl.Answers.History(ctx, "", since)
		if err != nil {
			return err
		}
		return report.HistoryJSON(w, h)
	case "savings":
		a, err := p.ctl.Account().Since(time.Now().Add(-since))
		if err != nil {
			return err
		}
		return report.SavingsJSON(w, report.NewSavings(a))
	case "headroom":
		list, err := listHeadrooms(ctx, p.client, "")
		if err != nil {
			return err
		}
		return report.HeadroomJSON(w, list)
	}
	return fmt.Errorf("report %q is not served by the controller; use 'dovetail %s': %w", name, name, fs.ErrNotExist)
}

// Usages implements web.Source.
func (p *controllerPage) Usages() []top.Usage {
	board, _ := p.look()
	p.mu.Lock() // a board is one caller's at a time
	defer p.mu.Unlock()
	return board.Usages()
}

// Pending implements web.Source.
func (p *controllerPage) Pending(ctx context.Context, w io.Writer) error {
	out, err := p.ctl.Answers.ExplainPending(ctx)
	if err != nil {
		return err
	}
	return report.PendingJSON(w, &out)
}

// Plan implements web.Source. A what-if may take seconds of a processor, which the controller has no time for.
func (p *controllerPage) Plan(context.Context, io.Writer, io.Reader) error {
	return fmt.Errorf("the controller makes no what-if plans; use 'dovetail ui' or 'dovetail plan --live': %w", fs.ErrNotExist)
}

// Offer implements web.Source.
func (p *controllerPage) Offer() web.Offer {
	return web.Offer{By: "the controller", Reports: []string{"history", "savings", "headroom"}}
}
