// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/top"
	"github.com/dovetail-sh/dovetail/internal/top/screen"
)

type topFlags struct {
	clusterFlags
	priceFlags
	server, output, sort, filter string
	once                         bool
}

func topCommand() *cobra.Command {
	f := topFlags{}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show nodes, utilization, cost, pending pods and decisions of a cluster, live",
		Long: `Shows a cluster on one screen: its autoscaler, the requested share of each node (and its usage, with metrics-server), the
cost of the nodes, current operations, pending pods with reasons, and recent decisions. Works with any autoscaler. It
needs a kubeconfig with read access, reports what it cannot read, and changes nothing. If Dovetail is running, it provides
decisions and details.

Prices are from the built-in EC2 catalog, or from --catalog. For other instance types, prices are from --price-file,
otherwise from the NodeClaim (price at launch), otherwise unknown.

Without a terminal, and with --once or -o json, the command prints one snapshot. NO_COLOR=1 disables colors.

Exit status: 0 success, 1 there is no cluster or its nodes cannot be read, 2 usage error, 130 or 143 interrupted or terminated.`,
		Example: "  dovetail top\n" +
			"  dovetail top --once --sort=-$/h --filter spot\n" +
			"  dovetail top -o json | jq .total.dollarsPerHour",
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error {
			look := top.NewLook()
			look.Filter = f.filter
			if err := look.SortNodes(f.sort); err != nil {
				return exit{2, fmt.Errorf("--sort %q: %w", f.sort, err)}
			}
			if err := checkOutput(f.output); err != nil {
				return err
			}
			in, hasIn := terminal(c.InOrStdin())
			out, hasOut := terminal(c.OutOrStdout())
			if hasOut {
				if w, _, err := term.GetSize(out.Fd()); err == nil {
					look.Width = w
				}
			}
			if f.once || isStructured(f.output) || !hasIn || !hasOut || os.Getenv("TERM") == "dumb" {
				return prompt(func(c *cobra.Command, _ []string, shown *progress) error { return topOnce(c, f, look, shown) })(c, args)
			}
			return topLive(c, f, look, in, out)
		},
	}
	g := c.Flags()
	f.clusterFlags.add(g)
	g.StringVar(&f.server, "server", os.Getenv("DOVETAIL_SERVER"), serverUsage)
	f.priceFlags.add(g, catalogUsage)
	g.BoolVar(&f.once, "once", false, "Print one snapshot and exit")
	addOutput(g, &f.output)
	g.StringVar(&f.sort, "sort", "", "Column to sort nodes by, for example cpu. With prefix -, descending order (-$/h). Default: name")
	g.StringVar(&f.filter, "filter", "", "Show only rows that contain this text")
	return c
}

// observed is a cluster that top looks at.
type observed struct {
	client *client.Client
	board  *screen.Shared
	ask    askDovetail
	given  bool // somebody named the Dovetail to ask: that it does not answer is worth saying
}

// askDovetail asks the running controller for a path.
type askDovetail func(ctx context.Context, path string) ([]byte, error)

// observe reaches the cluster of the flags.
func observe(ctx context.Context, f topFlags, log *slog.Logger) (*observed, error) {
	cluster, used, err := connectUser(ctx, f.clusterFlags, "top")
	if err != nil {
		return nil, err
	}
	cluster.Log = log
	o := &observed{client: cluster, board: screen.Share(top.NewBoard(top.Cluster{Name: used, Server: cluster.Address}, top.Prices{}))}
	server := f.server
	o.given = server != ""
	if server == "" {
		server = sandboxController(cmp.Or(f.path(os.Getenv), os.Getenv("KUBECONFIG")))
	}
	if server != "" {
		o.ask = func(ctx context.Context, path string) ([]byte, error) { return get(ctx, server, path) }
	} else {
		o.ask = client.NewReach(cluster).Ask
	}
	return o, nil
}

// observeOnce returns what there is to see in a cluster, read once within a limit.
func observeOnce(c *cobra.Command, f topFlags, limit time.Duration, shown *progress) (*observed, error) {
	log, err := logger(c.ErrOrStderr(), "text", "error")
	if err != nil {
		return nil, err
	}
	shown.at("connecting to the cluster")
	o, err := observe(c.Context(), f, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := readWithin(c.Context(), o.client.Address, limit)
	defer cancel()
	return o, o.read(ctx, &f.priceFlags, shown)
}

func topOnce(c *cobra.Command, f topFlags, look *top.Look, shown *progress) error {
	o, err := observeOnce(c, f, oncePerMinute, shown)
	if err != nil {
		return err
	}
	write := top.Text
	if isStructured(f.output) {
		write = top.JSON
	}
	return write(c.OutOrStdout(), o.board.View(), look)
}

func topLive(c *cobra.Command, f topFlags, look *top.Look, in, out *os.File) error {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	shown := showProgress(c.ErrOrStderr())
	shown.at("connecting to the cluster")
	o, err := observe(ctx, f, slog.New(slog.DiscardHandler)) // what goes wrong is said on the screen
	shown.end()
	if err != nil {
		if c.Context().Err() != nil {
			return ended(c.Context())
		}
		return err
	}
	if err := o.follow(ctx, &f.priceFlags); err != nil {
		return err
	}
	if err := screen.Run(ctx, o.board, look, o.why, in, out); err != nil {
		if c.Context().Err() != nil {
			return ended(c.Context())
		}
		return err
	}
	return nil
}

// follow keeps the board up to date in the background until the context ends. An error is one of the catalog that was
// named; that the built-in one can't be read is said on the board.
func (o *observed) follow(ctx context.Context, f *priceFlags) error {
	if *f != (priceFlags{}) { // a mistake in it must not flash by
		if err := o.readPrices(f); err != nil {
			return err
		}
	} else {
		go func() {
			if err := o.readPrices(f); err != nil {
				o.board.Apply(func(b *top.Board) { b.SetProblem("prices", err.Error()) })
			}
		}()
	}
	watch.Overview(ctx, o.client, o.board.Apply)
	go func() {
		for pause := machinesSoon; ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
				if pause = machinesSoon; o.readMachines(ctx) {
					pause = oncePerMinute
				}
			}
		}
	}()
	go func() {
		for ctx.Err() == nil {
			pause := ledgerPause
			if o.readLedger(ctx) {
				pause = ledgerEvery
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}()
	return nil
}

// machinesSoon is how often it is looked whether there are nodes of Cluster API.
const machinesSoon = 5 * time.Second

// readMachines reads what the MachineDeployments of Cluster API's nodes say of them, and reports whether there are such nodes. What can't be read is said.
func (o *observed) readMachines(ctx context.Context) bool {
	var nodes map[string]map[string]bool
	o.board.Apply(func(b *top.Board) { nodes = b.ClusterAPINodes() })
	offers, text := map[string]top.Offer{}, ""
	for cluster, untyped := range nodes {
		of, err := clusterapi.ReadConfig(cluster)
		if err != nil {
			continue // the annotations name none
		}
		limited, cancel := context.WithTimeout(ctx, oncePerMinute)
		found, err := clusterapi.NodeOffers(limited, of, o.client, func(node string) bool { return untyped[node] })
		cancel()
		if err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		for name, x := range found {
			offers[name] = top.Offer{Type: x.Type, Zone: x.Zone, Micro: model.AnnotatedPriceMicro(map[string]string{model.AnnotationPrice: x.Price})}
		}
	}
	o.board.Apply(func(b *top.Board) {
		b.SetOffers(offers, text == "")
		b.SetProblem("machines", text)
	})
	return len(nodes) > 0
}

// readPrices reads the catalog and the price file.
func (o *observed) readPrices(f *priceFlags) error {
	cat, list, err := f.read()
	if err != nil {
		return err
	}
	prices := catalogPrices(cat, list)
	o.board.Apply(func(b *top.Board) { b.SetPrices(prices) })
	return nil
}

// catalogPrices finds prices in a catalog: of the zone and capacity type asked for, else of the first zone that has the capacity type,
// else on demand. A price of the list, which may be nil, comes first.
func catalogPrices(cat *catalog.Catalog, list *catalog.PriceList) top.Prices {
	return top.Prices{Name: cat.Name, AsOf: cat.PricesAsOf, Find: func(instanceType, zone, capacityType string) (top.Price, bool) {
		if micro, ok := list.PriceMicro(instanceType, zone, capacityType); ok {
			return top.Price{Micro: micro}, true
		}
		t := cat.Find(instanceType)
		if t == nil {
			return top.Price{}, false
		}
		for _, ask := range []struct {
			zone, capacityType string
			other              bool
		}{{zone, capacityType, false}, {"", capacityType, true}, {zone, model.OnDemand, true}, {"", model.OnDemand, true}} {
			for i := range t.Offerings {
				if x := &t.Offerings[i]; x.CapacityType == ask.capacityType && (ask.zone == "" || x.Zone == ask.zone) {
					return top.Price{Micro: x.PriceMicro, Modelled: x.Modelled, Other: ask.other}, true
				}
			}
		}
		return top.Price{}, false
	}}
}

// readLedger takes Dovetail's decisions over; it reports whether there were any to have.
func (o *observed) readLedger(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, ledgerLimit)
	defer cancel()
	raw, err := o.ask(limited, "ledger")
	var entries []ledger.Entry
	if err == nil {
		err = json.Unmarshal(raw, &entries)
	}
	const what = "Dovetail"
	if err != nil {
		text := ""
		var none *client.NoController
		var missing *client.MissingRole
		noneKnown := errors.As(err, &none) || errors.As(err, &missing) && !missing.There // then it need not be said
		if o.given || !noneKnown && ctx.Err() == nil {
			text = "its ledger can't be read: " + err.Error()
		}
		o.board.Apply(func(b *top.Board) { b.ForgetLedger(); b.SetSigns("ledger", nil); b.SetProblem(what, text) })
		return false
	}
	decisions := ledgerDecisions(entries)
	o.board.Apply(func(b *top.Board) {
		b.SetLedger(decisions)
		b.SetSigns("ledger", []top.Autoscaler{{Name: top.Dovetail, Sign: "responds"}})
		b.SetProblem(what, "")
	})
	return true
}

// ledgerDecisions are the entries of a ledger in the words of 'dovetail history', without what goes with another entry: the answer to a launch, the end of a NodeClaim's instance.
func ledgerDecisions(entries []ledger.Entry) []top.Decision {
	var out []top.Decision
	for i := range entries {
		e := &entries[i]
		if e.Kind == ledger.Keep && len(e.Why) > 0 {
			out = append(out, top.Decision{At: e.At, Last: e.Last, By: top.Dovetail, Kind: report.HistoryWord(e), Subject: e.Subject, Text: reasonText(e.Why[0]), Keeps: true})
			continue
		}
		if !ledger.Kept(e) && e.Kind != ledger.Bind && e.Kind != "would create" {
			continue
		}
		d := top.Decision{At: e.At, Last: e.Last, Count: e.Count, By: top.Dovetail, Kind: report.HistoryWord(e), Subject: e.Subject, Text: report.EntryWhy(e),
			Warning: strings.HasPrefix(e.Outcome, "failed"), Refusal: e.Kind == ledger.Refuse, Blocker: report.Blocker(e)}
		if e.Kind == "create" {
			d.Pods = e.Pods
		}
		if e.Kind == "move" && e.Command != nil {
			d.Micro = e.Command.Saved
		}
		out = append(out, d)
	}
	return out
}

func reasonText(r plan.Reason) string {
	if r.Pool != "" {
		return "NodePool " + r.Pool + ": " + report.Sentence(r)
	}
	return report.Sentence(r)
}

// why asks Dovetail about an object. Of what it knows nothing, or where there is none, there is no answer.
func (o *observed) why(ctx context.Context, subject string) (string, bool) {
	kind, _, _ := strings.Cut(subject, "/")
	switch kind {
	case "pod", "node", "nodeclaim", "nodepool":
	default:
		return "", false
	}
	raw, err := o.ask(ctx, "why/"+subject)
	if err != nil {
		return "", false
	}
	var a report.Why
	if err := json.Unmarshal(raw, &a); err != nil {
		return "", false
	}
	var b bytes.Buffer
	if err := report.WhyText(&b, &a); err != nil {
		return "", false
	}
	_, said, _ := strings.Cut(b.String(), "\n") // its first line names the object
	return said, true
}

// sandboxController is the metrics address of the controller of the sandbox that a kubeconfig is of; empty: it is of none, or that has none.
func sandboxController(kubeconfig string) string {
	if kubeconfig == "" {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(kubeconfig), "state.json"))
	if err != nil {
		return ""
	}
	var state struct {
		Kubeconfig string `json:"kubeconfig"`
		Components []struct {
			Name  string         `json:"name"`
			Ports map[string]int `json:"ports"`
		} `json:"components"`
	}
	if json.Unmarshal(data, &state) != nil || state.Kubeconfig == "" {
		return ""
	}
	for _, c := range state.Components {
		if port := c.Ports["metrics"]; port != 0 && (c.Name == "dovetail" || strings.HasPrefix(c.Name, "dovetail-")) {
			return fmt.Sprintf("http://127.0.0.1:%d", port)
		}
	}
	return ""
}
