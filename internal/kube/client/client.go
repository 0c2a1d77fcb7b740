// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
)

// Scheme holds the kinds that this room reads or writes and no others.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	utilruntime.Must(appsv1.AddToScheme(s))
	utilruntime.Must(policyv1.AddToScheme(s))
	utilruntime.Must(storagev1.AddToScheme(s))
	utilruntime.Must(coordinationv1.AddToScheme(s))
	utilruntime.Must(nodev1.AddToScheme(s))
	utilruntime.Must(schedulingv1.AddToScheme(s))
	utilruntime.Must(resourceapi.AddToScheme(s))
	utilruntime.Must(karpv1.AddToScheme(s))
	utilruntime.Must(karpv1alpha1.AddToScheme(s))
	utilruntime.Must(karpv1alpha5.AddToScheme(s))
	utilruntime.Must(awsv1alpha1.AddToScheme(s))
	utilruntime.Must(kwokv1alpha1.AddToScheme(s))
	utilruntime.Must(awsv1.AddToScheme(s))
	utilruntime.Must(clusterapiv1alpha1.AddToScheme(s))
	utilruntime.Must(bufferv1beta1.AddToScheme(s))
	utilruntime.Must(dovetailv1alpha1.AddToScheme(s))
	for _, k := range translate.GangKinds() {
		for _, v := range k.Versions() {
			s.AddKnownTypeWithName(v.WithKind(k.Kind), &unstructured.Unstructured{})
			s.AddKnownTypeWithName(v.WithKind(k.Kind+"List"), &unstructured.UnstructuredList{})
			metav1.AddToGroupVersion(s, v)
		}
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// Codecs read and write the kinds of Scheme.
var Codecs = serializer.NewCodecFactory(Scheme)

// Client is a connection to one API server.
type Client struct {
	// Address of the API server, for messages.
	Address string
	// Namespace of the kubeconfig's context; empty: not set, or the client does not use a user's kubeconfig.
	Namespace string
	// Log receives errors of watches.
	Log *slog.Logger
	// Seen contains the objects that Watch has received with this client, and responses to writes.
	Seen Store

	tellsWrites

	config *rest.Config
	http   *http.Client

	Core, Apps, Policy, Storage                   rest.Interface
	Coordination, Node, Scheduling                rest.Interface
	Karpenter, Provisioner, KWOK, AWS, ClusterAPI rest.Interface
	Dovetail, KarpenterAlpha, Buffers             rest.Interface
	Requests                                      rest.Interface // ProvisioningRequests; nil: the API server has none
	AWSAlpha, Resource                            rest.Interface
}

// AnswerLimit is how long an API server has to answer the first question.
const AnswerLimit = 15 * time.Second

// Connect connects to an API server with a kubeconfig file or, if kubeconfig is empty, with the in-cluster service account. With a
// qps of 0 or less (the default), only the server's priority and fairness limits requests.
func Connect(ctx context.Context, kubeconfig string, qps float32, burst int, userAgent string, access Access) (*Client, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("connect to the API server: not in a cluster, and no kubeconfig is set: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	if qps <= 0 {
		qps, burst = -1, 0
	}
	config.QPS, config.Burst, config.UserAgent = qps, burst, userAgent
	return New(ctx, config, access)
}

// ErrNoCluster is the error of ConnectUser if no kubeconfig names a cluster.
var ErrNoCluster = errors.New("no cluster is configured: use --kubeconfig, set KUBECONFIG, or start a sandbox with 'dovetail-sandbox up'")

// ConnectUser reaches the API server that a person's kubectl would: by the kubeconfig file path or, where that is empty, by $KUBECONFIG,
// which may list several files, ~/.kube/config, or as a pod of the cluster. contextName chooses a context; empty: the current one. used is
// the name of the context; empty: there is none, as in a pod.
func ConnectUser(ctx context.Context, path, contextName, userAgent string) (c *Client, used string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: contextName})
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", ErrNoCluster
	} else if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	if raw, err := loaded.RawConfig(); err == nil {
		used = cmp.Or(contextName, raw.CurrentContext)
	}
	config.QPS, config.Burst, config.UserAgent = -1, 0, userAgent
	c, err = New(ctx, config, ReadWrite)
	if namespace, _, nsErr := loaded.Namespace(); err == nil && nsErr == nil {
		c.Namespace = namespace
	}
	return c, used, err
}

// Contexts returns the sorted context names of the kubeconfig at path. If path is empty, it reads the same files as
// ConnectUser.
func Contexts(path string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}

// New returns a client for the API server of a config, and requests its version.
func New(ctx context.Context, config *rest.Config, access Access) (*Client, error) {
	if access == ReadOnly {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server %s: %w", config.Host, err)
	}
	c := &Client{Address: config.Host, Log: slog.Default(), config: config, http: h, Seen: Store{Volumes: volume.NewIndex()}}
	config.WarningHandlerWithContext = warnings{c}
	for _, g := range []struct {
		gv     schema.GroupVersion
		binary bool
		into   *rest.Interface
	}{
		{corev1.SchemeGroupVersion, true, &c.Core},
		{appsv1.SchemeGroupVersion, true, &c.Apps},
		{policyv1.SchemeGroupVersion, true, &c.Policy},
		{storagev1.SchemeGroupVersion, true, &c.Storage},
		{coordinationv1.SchemeGroupVersion, true, &c.Coordination},
		{nodev1.SchemeGroupVersion, true, &c.Node},
		{schedulingv1.SchemeGroupVersion, true, &c.Scheduling},
		{resourceapi.SchemeGroupVersion, true, &c.Resource},
		{karpv1.GroupVersion, false, &c.Karpenter},
		{karpv1alpha1.GroupVersion, false, &c.KarpenterAlpha},
		{karpv1alpha5.GroupVersion, false, &c.Provisioner},
		{kwokv1alpha1.GroupVersion, false, &c.KWOK},
		{awsv1.GroupVersion, false, &c.AWS},
		{clusterapiv1alpha1.GroupVersion, false, &c.ClusterAPI},
		{bufferv1beta1.GroupVersion, false, &c.Buffers},
		{awsv1alpha1.GroupVersion, false, &c.AWSAlpha},
		{dovetailv1alpha1.GroupVersion, false, &c.Dovetail},
	} {
		r, err := c.restClient(g.gv, g.binary)
		if err != nil {
			return nil, fmt.Errorf("connect to API server %s: group %s: %w", config.Host, g.gv, err)
		}
		*g.into = r
	}
	limited, cancel := context.WithTimeout(ctx, AnswerLimit)
	defer cancel()
	if err := c.Core.Get().AbsPath("/version").MaxRetries(0).Do(limited).Error(); err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			err = fmt.Errorf("it has not answered within %s", AnswerLimit)
		}
		return nil, fmt.Errorf("connect to API server %s: %w", config.Host, err)
	}
	return c, nil
}

// Logging returns a context in which client-go writes to our log.
func (c *Client) Logging(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(c.Log.Handler()))
}

// warnings are the API server's remarks on a request that it carried out.
type warnings struct{ c *Client }

func (w warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.c.Log.Debug("API server warning", "server", w.c.Address, "warning", text)
}

// restClient talks protobuf for built-in kinds; the kinds of CRDs have JSON only.
func (c *Client) restClient(gv schema.GroupVersion, binary bool) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.ContentType = runtime.ContentTypeJSON
	if binary {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	config.NegotiatedSerializer = Codecs.WithoutConversion()
	r, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Gangs returns a client for a version of a kind that defines gangs.
func (c *Client) Gangs(version schema.GroupVersion) (rest.Interface, error) {
	r, err := c.restClient(version, false)
	if err != nil {
		return nil, fmt.Errorf("connect to API server %s: group %s: %w", c.Address, version, err)
	}
	return r, nil
}

// Version returns the API server's minor version, such as 1.36.
func (c *Client) Version(ctx context.Context) (string, error) {
	raw, err := c.Core.Get().AbsPath("/version").SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask API server %s for its version: %w", c.Address, err)
	}
	var v struct{ Major, Minor string }
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", fmt.Errorf("ask API server %s for its version: %w", c.Address, err)
	}
	minor := strings.TrimRight(v.Minor, "+")
	if v.Major == "" || minor == "" {
		return "", fmt.Errorf("ask API server %s for its version: invalid answer %q.%q", c.Address, v.Major, v.Minor)
	}
	return v.Major + "." + minor, nil
}

// Serves reports whether the API server has a resource.
func (c *Client) Serves(ctx context.Context, gv schema.GroupVersion, resource string) (bool, error) {
	var list metav1.APIResourceList
	err := c.Core.Get().AbsPath("/apis", gv.Group, gv.Version).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask API server %s for %s: %w", c.Address, gv, err)
	}
	for _, r := range list.APIResources {
		if r.Name == resource {
			return true, nil
		}
	}
	return false, nil
}

// Backoff returns delays that double from the first to the last, which then repeats.
func Backoff(first, last time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Cap: last, Steps: math.MaxInt32}
}

// VersionAndDate requests the API server's minor version and its time in whole seconds; zero if it returns none.
func (c *Client) VersionAndDate(ctx context.Context) (version string, date time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Core.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return "", time.Time{}, err
	}
	req.Header.Set("Accept", runtime.ContentTypeJSON)
	res, err := c.http.Do(req)
	if err != nil {
		return "", time.Time{}, err
	}
	defer res.Body.Close()
	var v struct{ Major, Minor string }
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&v); err != nil {
		return "", time.Time{}, fmt.Errorf("decode the API server's version: %w", err)
	}
	date, _ = http.ParseTime(res.Header.Get("Date"))
	return strings.Trim(v.Major+"."+strings.TrimRight(v.Minor, "+"), "."), date, nil
}
