// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// serveWhy answers GET /why/KIND/NAME with report.Why as JSON.
func serveWhy(ctl *controller.Controller, w http.ResponseWriter, r *http.Request) {
	subject := strings.TrimPrefix(r.URL.Path, "/why/")
	out, err := ctl.Answers.Explain(r.Context(), subject)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := report.WhyJSON(w, &out); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func whyCommand() *cobra.Command {
	f := whyFlags{}
	c := &cobra.Command{
		Use:   "why pod/[NAMESPACE/]NAME | deployment/[NAMESPACE/]NAME | statefulset/[NAMESPACE/]NAME | job/[NAMESPACE/]NAME | node/NAME | nodeclaim/NAME | nodepool/NAME | headroom/[NAMESPACE/]NAME | pods --pending",
		Short: "Explain the state of an object, the decisions about it, and what would change them",
		Long: `Asks the controller why a pod has no node, why a node is kept, what a NodePool can launch, or what a Headroom holds.
Prints the decisions about the object, its current blockers, the cost of the alternatives, and the changes that would
help. For a deleted object, prints its decisions of the last week ('dovetail history').

'why pods --pending' explains all pending pods, grouped by reason.

` + reachHelp + `

Exit status: 0 success, 1 the object does not exist or no controller can be reached, 2 usage error, 130 or 143 interrupted or
terminated.`,
		Example: "  dovetail why node/ip-10-0-1-2.ec2.internal\n  dovetail why -n shop pod/cart-7d4b9 -o yaml\n  dovetail why deployment/shop/cart\n  dovetail why pods --pending",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit{2, fmt.Errorf("why needs one object, got %d: use %s, or pods --pending; see 'dovetail why --help'", len(args), subjectForms)}
			}
			return nil
		},
		RunE: prompt(func(c *cobra.Command, args []string, shown *progress) error { return runWhy(c, f, args[0], shown) }),
	}
	f.reach.add(c)
	c.Flags().BoolVar(&f.pending, "pending", false, "With 'pods': explain all pending pods")
	addNamespace(c.Flags(), &f.namespace)
	addOutput(c.Flags(), &f.output)
	addWatch(c.Flags())
	completeObjects(c, "pod", "deployment", "node", "nodeclaim", "nodepool", "headroom")
	return c
}

type whyFlags struct {
	reach             reachFlags
	output, namespace string
	pending           bool
}

func runWhy(c *cobra.Command, f whyFlags, object string, shown *progress) error {
	if object == "pods" && f.pending {
		if err := checkOutput(f.output); err != nil {
			return err
		}
		var p report.Pending
		if err := f.reach.ask(c.Context(), shown, "why", "pending", &p); err != nil {
			return err
		}
		if isStructured(f.output) {
			return report.PendingJSON(c.OutOrStdout(), &p)
		}
		return report.PendingText(c.OutOrStdout(), &p)
	}
	if f.pending {
		return exit{2, fmt.Errorf("--pending requires the argument pods: dovetail why pods --pending")}
	}
	subject, err := subjectOf(object, f.namespace)
	if err != nil {
		return exit{2, fmt.Errorf("%w, or pods --pending", err)}
	}
	if err := checkOutput(f.output); err != nil {
		return err
	}
	var a report.Why
	if err := f.reach.ask(c.Context(), shown, "why", "why/"+subject, &a); err != nil {
		return err
	}
	if isStructured(f.output) {
		return report.WhyJSON(c.OutOrStdout(), &a)
	}
	return report.WhyText(c.OutOrStdout(), &a)
}

// subjectForms are how objects are named on the command line.
const subjectForms = "pod/NAME, deployment/NAME, statefulset/NAME, job/NAME, node/NAME, nodeclaim/NAME, nodepool/NAME or headroom/NAME"

// servePending answers GET /pending with report.Pending as JSON.
func servePending(ctl *controller.Controller, w http.ResponseWriter, r *http.Request) {
	out, err := ctl.Answers.ExplainPending(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := report.PendingJSON(w, &out); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// subjectOf returns the object that an argument names. namespace is that of objects whose name does not contain one.
func subjectOf(arg, namespace string) (string, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || name == "" {
		return "", fmt.Errorf("object %q: use %s", arg, subjectForms)
	}
	switch kind {
	case "pod", "pods", "po":
		if !strings.Contains(name, "/") {
			name = namespace + "/" + name
		}
		return "pod/" + name, nil
	case "deployment", "deployments", "deploy":
		if !strings.Contains(name, "/") {
			name = namespace + "/" + name
		}
		return "deployment/" + name, nil
	case "statefulset", "statefulsets", "sts", "job", "jobs":
		if !strings.Contains(name, "/") {
			name = namespace + "/" + name
		}
		if strings.HasPrefix(kind, "job") {
			return "job/" + name, nil
		}
		return "statefulset/" + name, nil
	case "node", "nodes", "no":
		return "node/" + name, nil
	case "nodeclaim", "nodeclaims":
		return "nodeclaim/" + name, nil
	case "nodepool", "nodepools":
		return "nodepool/" + name, nil
	case "headroom", "headrooms", "hr":
		if !strings.Contains(name, "/") {
			name = namespace + "/" + name
		}
		return "headroom/" + name, nil
	}
	return "", fmt.Errorf("object %q: kind %q is not one of pod, deployment, statefulset, job, node, nodeclaim, nodepool, headroom", arg, kind)
}

// askController reads the JSON that a running controller answers at a path of its metrics port into an answer. verb is
// the command whose help says how to reach one.
func askController(ctx context.Context, server, verb, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body, err := get(ctx, server, path)
	var failed *url.Error
	var refused refusal
	var usage exit
	switch {
	case errors.As(err, &usage):
		return err
	case errors.As(err, &refused) && refused.code == http.StatusNotFound && refused.said != "":
		return errors.New(refused.said)
	case errors.As(err, &refused) && refused.code == http.StatusUnauthorized:
		return fmt.Errorf("the controller at %s (--server) requires a token in DOVETAIL_TOKEN: %s", server, refused.said)
	case errors.As(err, &refused):
		return fmt.Errorf("the server at %s (--server) is not a controller, or failed: %w", server, err)
	case errors.As(err, &failed):
		err = failed.Err // it names the address again
		if ctx.Err() == nil {
			err = fmt.Errorf("%w; 'dovetail %s --help' lists the ways to reach it", err, verb)
		}
		return fmt.Errorf("ask the controller at %s (--server): %w", server, err)
	case err != nil:
		return fmt.Errorf("ask the controller at %s: %w", server, err)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("response from the controller at %s: %w", server, err)
	}
	return nil
}

// refusal is the answer of a server that has none.
type refusal struct {
	code         int    // of HTTP
	status, said string // the status line; the body
}

func (r refusal) Error() string { return strings.TrimSpace(r.status + " " + r.said) }

// get is what a Dovetail at an address answers at a path. The error is a refusal where it answers with anything but 200,
// and an exit where the address can't be one.
func get(ctx context.Context, server, path string) ([]byte, error) {
	at, err := url.JoinPath(server, path)
	if err != nil {
		return nil, exit{2, fmt.Errorf("--server %q: %w", server, err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, exit{2, fmt.Errorf("--server %q: %w", server, err)}
	}
	if token := os.Getenv("DOVETAIL_TOKEN"); token != "" && req.URL.Scheme == "https" { // never in the clear
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerMost))
	if err == nil && res.StatusCode != http.StatusOK {
		err = refusal{res.StatusCode, res.Status, strings.TrimSpace(string(body))}
	}
	return body, err
}
