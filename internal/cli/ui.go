// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/access"
	"github.com/dovetail-sh/dovetail/internal/top"
	"github.com/dovetail-sh/dovetail/internal/web"
)

// uiReports are the commands whose output the page shows. None changes anything.
var uiReports = []string{"doctor", "history", "savings", "headroom"}

// detailsWidth is how many characters the page shows in a line of details.
const detailsWidth = 110

type uiFlags struct {
	topFlags
	address string
}

func uiCommand() *cobra.Command {
	f := uiFlags{}
	c := &cobra.Command{
		Use:   "ui",
		Short: "Show a cluster in a browser: nodes, utilization, cost, pending pods, decisions and reasons",
		Long: `Serves a local web page about a cluster until interrupted: the content of 'dovetail top' with graphs, a map of the nodes,
explanations of objects, plans for pasted manifests, and the results of 'dovetail doctor', 'history', 'savings' and
'headroom'. Works with any autoscaler. It needs a kubeconfig with read access, and changes nothing.

The page is served on a loopback address only, with the permissions of the kubeconfig, and loads nothing from other hosts.

Exit status: 0 stopped by Ctrl-C, 1 the cluster cannot be reached or the address is in use, 2 usage error.`,
		Example: "  dovetail ui\n" +
			"  dovetail ui --address 127.0.0.1:9000 --context production",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runUI(c, f) },
	}
	g := c.Flags()
	g.StringVar(&f.address, "address", "127.0.0.1:8090", "Loopback address and port of the page. Port 0 selects a free port")
	f.clusterFlags.add(g)
	g.StringVar(&f.server, "server", os.Getenv("DOVETAIL_SERVER"), serverUsage)
	f.priceFlags.add(g, catalogUsage)
	return c
}

func runUI(c *cobra.Command, f uiFlags) error {
	if _, _, err := net.SplitHostPort(f.address); err != nil {
		return exit{2, fmt.Errorf("--address %q: want HOST:PORT, such as 127.0.0.1:8090", f.address)}
	}
	if !access.IsLoopback(f.address) {
		return exit{2, fmt.Errorf("--address %q: the page shows everything that the kubeconfig can read; use a loopback address, such as 127.0.0.1:8090", f.address)}
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	o, err := observe(ctx, f.topFlags, slog.New(slog.DiscardHandler)) // what goes wrong is said on the page
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.address)
	if err != nil {
		return fmt.Errorf("serve the page: %w; choose another port with --address", err)
	}
	defer listener.Close()
	if err := o.follow(ctx, &f.priceFlags); err != nil {
		return err
	}
	samples := &web.Samples{}
	go func() {
		tick := time.NewTicker(web.SampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if v := o.board.View(); len(v.Reading) == 0 { // else sums are still growing
					samples.Add(v)
				}
			}
		}
	}()
	fmt.Fprintf(c.OutOrStdout(), "The page about %s is at http://%s/ until Ctrl-C.\n", o.board.View().Cluster.Name, listener.Addr())
	server := &http.Server{Handler: web.LoopbackHandler(&uiSource{observed: o, flags: f}, samples), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close() // it ends Serve
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page on %s: %w", listener.Addr(), err)
	}
	return nil
}

// uiSource is what the page shows of an observed cluster.
type uiSource struct {
	observed *observed
	flags    uiFlags
}

// View implements web.Source.
func (s *uiSource) View() *top.View { return s.observed.board.View() }

// Details implements web.Source: what top says of an object, then what Dovetail says of why.
func (s *uiSource) Details(ctx context.Context, w io.Writer, subject string) error {
	kind, name, ok := strings.Cut(subject, "/")
	if !ok || name == "" {
		return fmt.Errorf("subject %q: want KIND/NAME, or pod/NAMESPACE/NAME: %w", subject, fs.ErrNotExist)
	}
	board := s.observed.board
	lines := board.Detail(board.View(), subject, detailsWidth)
	why, explained := s.observed.why(ctx, subject)
	if len(lines) == 0 && !explained {
		return fmt.Errorf("%s %s not found: %w", kind, name, fs.ErrNotExist)
	}
	return writeDetails(w, subject, lines, why)
}

// writeDetails writes what the board knows of an object, then why it is so, where that is known.
func writeDetails(w io.Writer, subject string, lines []top.DetailLine, why string) error {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Line.String() + "\n")
	}
	if why != "" {
		b.WriteString("\nWhy (dovetail why " + subject + ")\n" + why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Report implements web.Source.
func (s *uiSource) Report(ctx context.Context, w io.Writer, name string, since time.Duration) error {
	args := []string{name, "-o", "json"}
	switch name {
	case "doctor":
		args = append(args, s.flags.priceFlags.args()...)
	case "history", "savings":
		args = append(args, "--since", since.String())
		if s.flags.server != "" {
			args = append(args, "--server", s.flags.server)
		}
	case "headroom":
	default:
		return fmt.Errorf("report %q: want one of %s: %w", name, strings.Join(uiReports, ", "), fs.ErrNotExist)
	}
	return s.run(ctx, w, nil, args)
}

// Usages implements web.Source.
func (s *uiSource) Usages() []top.Usage { return s.observed.board.Usages() }

// Pending implements web.Source.
func (s *uiSource) Pending(ctx context.Context, w io.Writer) error {
	raw, err := s.observed.ask(ctx, "pending")
	if err != nil {
		return fmt.Errorf("no controller is available to explain the pending pods: %w: %w", err, fs.ErrNotExist)
	}
	_, err = w.Write(raw)
	return err
}

// Plan implements web.Source.
func (s *uiSource) Plan(ctx context.Context, w io.Writer, manifests io.Reader) error {
	return s.run(ctx, w, manifests, append([]string{"plan", "--live", "-f", "-"}, s.flags.priceFlags.args()...))
}

// Offer implements web.Source.
func (s *uiSource) Offer() web.Offer {
	return web.Offer{By: "dovetail ui", Reports: uiReports, Plan: true}
}

// run writes what a command prints. Its error is what it says when it can't: what it found wrong in the cluster is none.
func (s *uiSource) run(ctx context.Context, w io.Writer, in io.Reader, args []string) error {
	args = append(args, s.flags.clusterFlags.args()...)
	var errs bytes.Buffer
	if in == nil {
		in = strings.NewReader("")
	}
	if status := Main(ctx, args, in, w, &errs); status != 0 && status != foundProblems {
		return errors.New(cmp.Or(strings.TrimSpace(errs.String()), fmt.Sprintf("dovetail %s: exit status %d", args[0], status)))
	}
	return nil
}
