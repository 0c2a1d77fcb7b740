// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package sandbox starts the built dovetail-sandbox and gives access to what runs in it: clients of its API server, its
// simulated cloud with journal and faults, its processes and logs. The end-to-end tests and the reaction benchmark share it.
//
// It knows the sandbox's command line, state.json and HTTP only; it never reaches into a process, and decides nothing about what
// is right. Every call that can wait takes a context. Start reading at Up.
package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// The identities that a kubeconfig is written for.
const (
	Admin    = ""
	Dovetail = "dovetail"
)

// The names of components that are asked for.
const (
	Controller = "dovetail" // dovetail-0, dovetail-1 with several replicas
	Scheduler  = "kube-scheduler"
)

// Sandbox is one that is up.
type Sandbox struct {
	Dir         string
	Kube        *kubernetes.Clientset
	MachinesURL string
	AWSURL      string // of the simulated AWS, with --cloud aws
	bin         string
	http        http.Client
}

// State is what DIR/state.json says.
type State struct {
	Phase       string      `json:"phase"`
	MachinesURL string      `json:"machinesURL"`
	AWSURL      string      `json:"awsURL"`
	Journal     string      `json:"journal"`
	Components  []Component `json:"components"`
}

// Component is one of the sandbox's processes.
type Component struct {
	Name     string         `json:"name"`
	PID      int            `json:"pid"`
	State    string         `json:"state"`
	Ports    map[string]int `json:"ports"`
	Restarts int            `json:"restarts"`
	Log      string         `json:"log"`
}

// Binaries are the paths of the built dovetail-sandbox and dovetail: bin/ of the repository that the working directory is in, or what
// DOVETAIL_SANDBOX_BIN and DOVETAIL_BIN say.
func Binaries() (sandbox, dovetail string, err error) {
	root, err := Root()
	if err != nil {
		return "", "", err
	}
	for _, b := range []struct {
		path      *string
		env, name string
	}{{&sandbox, "DOVETAIL_SANDBOX_BIN", "dovetail-sandbox"}, {&dovetail, "DOVETAIL_BIN", "dovetail"}} {
		if *b.path = os.Getenv(b.env); *b.path == "" {
			*b.path = filepath.Join(root, "bin", b.name)
		}
		if *b.path, err = filepath.Abs(*b.path); err != nil {
			return "", "", err
		}
		if info, err := os.Stat(*b.path); err != nil || info.IsDir() {
			return "", "", fmt.Errorf("no binary at %s: build it with `make build`, or say in %s where it is", *b.path, b.env)
		}
	}
	return sandbox, dovetail, nil
}

// Root is the top of the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "cmd", "dovetail")); err == nil { // modules within it have a go.mod, too
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("neither %s nor a folder above it is the repository: run this inside it", dir)
		}
	}
}

// starting is held while a sandbox starts. It takes all processors: several at once take each longer than one after the other, and starve those
// that run.
var starting sync.Mutex

// Kubelets reports whether every sandbox gets real kubelets: DOVETAIL_KUBELETS=1 in the environment.
func Kubelets() bool { return os.Getenv("DOVETAIL_KUBELETS") == "1" }

// Up starts a sandbox in a directory of its own, with these flags of `up`. What could not be started leaves nothing behind, and
// the error is what the sandbox printed.
func Up(ctx context.Context, dir string, flags ...string) (*Sandbox, error) {
	bin, dovetail, err := Binaries()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{Dir: dir, bin: bin, http: http.Client{Timeout: time.Minute}}
	args := append([]string{"up", "--dir", dir, "--dovetail", dovetail}, flags...)
	if Kubelets() {
		args = append(args, "--kubelets")
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it then stops what it has started
	cmd.WaitDelay = time.Minute
	starting.Lock()
	out, err := cmd.CombinedOutput()
	starting.Unlock()
	if err != nil {
		return nil, fmt.Errorf("dovetail-sandbox up: %w\n%s", err, out)
	}
	if err := s.connect(); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	return s, nil
}

func (s *Sandbox) connect() error {
	st, err := s.State()
	if err != nil {
		return err
	}
	s.MachinesURL, s.AWSURL = st.MachinesURL, st.AWSURL
	s.Kube, err = s.As(Admin)
	return err
}

// Down stops the sandbox. It may be called again.
func (s *Sandbox) Down() error {
	if out, err := exec.Command(s.bin, "down", "--dir", s.Dir).CombinedOutput(); err != nil {
		return fmt.Errorf("dovetail-sandbox down: %w\n%s", err, out)
	}
	return nil
}

// Fault takes components away for a while (kill, stop or slow, see `dovetail-sandbox fault`), and returns when all answer again. What is slowed
// down runs a twentieth of the time.
func (s *Sandbox) Fault(ctx context.Context, kind string, d time.Duration, components ...string) error {
	args := append([]string{"fault", "--dir", s.Dir, kind, "--for", d.String(), "--share", "0.05"}, components...)
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it then has what is stopped go on
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("dovetail-sandbox fault %s %s: %w\n%s", kind, strings.Join(components, " "), err, out)
	}
	return nil
}

// Kubeconfig is the file of an identity.
func (s *Sandbox) Kubeconfig(identity string) string {
	if identity == Admin {
		return filepath.Join(s.Dir, "kubeconfig")
	}
	return filepath.Join(s.Dir, identity+".kubeconfig")
}

// As is a client with an identity of the sandbox. It speaks JSON.
func (s *Sandbox) As(identity string) (*kubernetes.Clientset, error) {
	config, err := s.Config(identity)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// Config is how an identity reaches the API server. It is not slowed down on this side.
func (s *Sandbox) Config(identity string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig(identity))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, 0
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// State reads what the supervisor says now.
func (s *Sandbox) State() (*State, error) {
	data, err := os.ReadFile(filepath.Join(s.Dir, "state.json"))
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's state: %w", err)
	}
	var st State
	if err := json.Unmarshal(data, &st); err != nil {
		return nil, fmt.Errorf("read the sandbox's state: %w", err)
	}
	return &st, nil
}

// Components are the processes whose name is this, or this with a number.
func (s *Sandbox) Components(name string) ([]Component, error) {
	st, err := s.State()
	if err != nil {
		return nil, err
	}
	var out []Component
	for _, c := range st.Components {
		if c.Name == name || strings.HasPrefix(c.Name, name+"-") {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the sandbox has no component %q", name)
	}
	return out, nil
}

// Leader is the controller that acts: the one that said so last.
func (s *Sandbox) Leader() (Component, error) {
	all, err := s.Components(Controller)
	if err != nil {
		return Component{}, err
	}
	var leader Component
	var last time.Time
	for _, c := range all {
		data, err := os.ReadFile(c.Log)
		if err != nil {
			return Component{}, fmt.Errorf("read the log of %s: %w", c.Name, err)
		}
		for line := range bytes.Lines(data) {
			var said struct {
				Time time.Time `json:"time"`
				Msg  string    `json:"msg"`
			}
			if json.Unmarshal(line, &said) == nil && said.Msg == "became leader" && said.Time.After(last) {
				leader, last = c, said.Time
			}
		}
	}
	if last.IsZero() {
		return Component{}, errors.New("no controller has said that it acts")
	}
	return leader, nil
}

// Get reads an object or a list from the API server. Errors are those of apimachinery.
func Get[T any](ctx context.Context, s *Sandbox, path string, query ...string) (*T, error) {
	req := s.Kube.CoreV1().RESTClient().Get().AbsPath(path)
	for i := 0; i+1 < len(query); i += 2 {
		req = req.Param(query[i], query[i+1])
	}
	data, err := req.DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("decode %s: %w", path, err)
	}
	return out, nil
}

// Create makes the object that a YAML document describes, in a collection such as /apis/karpenter.sh/v1/nodepools. Errors are
// those of apimachinery.
func (s *Sandbox) Create(ctx context.Context, path, text string) error {
	body, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return fmt.Errorf("not YAML: %w\n%s", err, text)
	}
	return s.Kube.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").
		Param("fieldValidation", "Strict").Body(body).Do(ctx).Error()
}

// Delete deletes an object, or with a label selector those of a collection.
func (s *Sandbox) Delete(ctx context.Context, path, selector string) error {
	req := s.Kube.CoreV1().RESTClient().Delete().AbsPath(path)
	if selector != "" {
		req = req.Param("labelSelector", selector)
	}
	return req.Do(ctx).Error()
}

// Patch merges JSON into an object.
func (s *Sandbox) Patch(ctx context.Context, path, merge string) error {
	return s.Kube.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath(path).Body([]byte(merge)).Do(ctx).Error()
}

// Watch hands on every change of a collection, in order, those there already first, until the context ends. Where the API
// server ends a watch, as it does with one that reads too slowly, or is away, it goes on behind the last change that was seen; that
// it can't is an error, as changes may have been missed. An API server that was started anew may not know that change: then what is
// there is handed on again, and what is not there any more as deleted.
func Watch[T any](ctx context.Context, s *Sandbox, path string, change func(kind string, object *T)) error {
	w := &watching{s: s, path: path, known: map[string]json.RawMessage{}, change: func(kind string, raw json.RawMessage) error {
		object := new(T)
		if err := json.Unmarshal(raw, object); err != nil {
			return err
		}
		change(kind, object)
		return nil
	}}
	restarted := false
	for {
		err := w.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		away := utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
		restarted = restarted || away
		switch {
		case away:
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		case apierrors.IsResourceExpired(err) && restarted:
			w.seen, w.restart, restarted = "", true, false
		case w.seen != "" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		default:
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
}

// watching is a watch of a collection.
type watching struct {
	s       *Sandbox
	path    string
	seen    string                     // resource version of the last change
	known   map[string]json.RawMessage // what is there, by uid
	restart bool                       // what is there is to be compared with known first
	change  func(kind string, raw json.RawMessage) error
}

// once watches from behind the last change on, until the watch ends. The error says how.
func (w *watching) once(ctx context.Context) error {
	path, query, _ := strings.Cut(w.path, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	get := func() *rest.Request {
		request := w.s.Kube.CoreV1().RESTClient().Get().AbsPath(path)
		for name := range params {
			request = request.Param(name, params.Get(name))
		}
		return request
	}
	if w.restart {
		if err := w.dropGone(ctx, get()); err != nil {
			return err
		}
		w.restart = false
	}
	request := get().Param("watch", "true")
	if w.seen != "" {
		request = request.Param("resourceVersion", w.seen)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	for dec := json.NewDecoder(body); ; {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := dec.Decode(&e); err != nil {
			return err
		}
		if e.Type == "ERROR" {
			var status metav1.Status
			if err := json.Unmarshal(e.Object, &status); err != nil {
				return err
			}
			return &apierrors.StatusError{ErrStatus: status}
		}
		var meta watchedObject
		if err := json.Unmarshal(e.Object, &meta); err != nil {
			return err
		}
		if e.Type != "BOOKMARK" {
			if err := w.change(e.Type, e.Object); err != nil {
				return err
			}
			if w.known[meta.Metadata.UID] = e.Object; e.Type == "DELETED" {
				delete(w.known, meta.Metadata.UID)
			}
		}
		w.seen = meta.Metadata.ResourceVersion
	}
}

// watchedObject is what a watch reads of its objects.
type watchedObject struct {
	Metadata struct{ UID, ResourceVersion string }
}

// dropGone hands on as deleted what was there and is not any more.
func (w *watching) dropGone(ctx context.Context, request *rest.Request) error {
	body, err := request.Do(ctx).Raw()
	if err != nil {
		return err
	}
	var list struct{ Items []watchedObject }
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, o := range list.Items {
		there[o.Metadata.UID] = true
	}
	for uid, object := range w.known {
		if !there[uid] {
			if err := w.change("DELETED", object); err != nil {
				return err
			}
			delete(w.known, uid)
		}
	}
	return nil
}

// Journal is all that has happened in the simulated cloud.
func (s *Sandbox) Journal(ctx context.Context) ([]machines.Record, error) {
	body, err := s.machines(ctx, http.MethodGet, "/v1/journal", nil)
	if err != nil {
		return nil, err
	}
	var out []machines.Record
	for dec := json.NewDecoder(bytes.NewReader(body)); ; {
		var r machines.Record
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode the journal: %w", err)
		}
		out = append(out, r)
	}
}

// Instances are the machines that are not terminated.
func (s *Sandbox) Instances(ctx context.Context) ([]machines.Instance, error) {
	body, err := s.machines(ctx, http.MethodGet, "/v1/instances", nil)
	if err != nil {
		return nil, err
	}
	var list machines.InstanceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decode the instances: %w", err)
	}
	return list.Instances, nil
}

// AddFaults makes things go wrong in the simulated cloud.
func (s *Sandbox) AddFaults(ctx context.Context, faults ...machines.Fault) error {
	_, err := s.machines(ctx, http.MethodPost, "/v1/faults", machines.FaultList{Faults: faults})
	return err
}

// Faults returns the faults that have still to occur.
func (s *Sandbox) Faults(ctx context.Context) ([]machines.Fault, error) {
	body, err := s.machines(ctx, http.MethodGet, "/v1/faults", nil)
	if err != nil {
		return nil, err
	}
	var list machines.FaultList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decode the faults: %w", err)
	}
	return list.Faults, nil
}

// ClearFaults ends all faults.
func (s *Sandbox) ClearFaults(ctx context.Context) error {
	_, err := s.machines(ctx, http.MethodDelete, "/v1/faults", nil)
	return err
}

// BaseNode adds a machine that Dovetail does not own.
func (s *Sandbox) BaseNode(ctx context.Context, instanceType, name string) error {
	_, err := s.machines(ctx, http.MethodPost, "/v1/base-node", machines.BaseNode{InstanceType: instanceType, Name: name})
	return err
}

func (s *Sandbox) machines(ctx context.Context, method, path string, body any) ([]byte, error) {
	return s.ask(ctx, "the simulated cloud", method, s.MachinesURL+path, body)
}

// AWS asks the simulated AWS for what is below /_aws/; out may be nil.
func (s *Sandbox) AWS(ctx context.Context, method, path string, body, out any) error {
	data, err := s.ask(ctx, "the simulated AWS", method, s.AWSURL+path, body)
	if err == nil && out != nil {
		err = json.Unmarshal(data, out)
	}
	return err
}

func (s *Sandbox) ask(ctx context.Context, whom, method, url string, body any) ([]byte, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", whom, err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %s %s: %w", whom, method, url, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("ask %s: %s %s: %s: %s", whom, method, url, resp.Status, bytes.TrimSpace(out))
	}
	return out, nil
}

// LogTail is the end of a component's log: the last n lines in which any of these words stands; no words: any line.
func (s *Sandbox) LogTail(name string, n int, words ...string) string {
	data, err := os.ReadFile(filepath.Join(s.Dir, "logs", name+".log"))
	if err != nil {
		return err.Error()
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		ok := len(words) == 0
		for _, w := range words {
			ok = ok || strings.Contains(line, w)
		}
		if ok {
			out = append(out, line)
		}
	}
	return strings.Join(out[max(0, len(out)-n):], "")
}

// FreePort draws a port of loopback that nobody listens on: below those that the sandbox draws and those that kernels
// give to outgoing connections, as one of either could take it before its server listens.
func FreePort() (string, error) {
	for range 100 {
		l, err := net.Listen("tcp4", fmt.Sprint("127.0.0.1:", 11000+rand.IntN(4000)))
		if err != nil {
			continue
		}
		_, port, err := net.SplitHostPort(l.Addr().String())
		return port, errors.Join(err, l.Close())
	}
	return "", errors.New("100 ports between 11000 and 15000 are taken")
}
