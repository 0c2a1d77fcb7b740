// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/dovetail-sh/dovetail/internal/access"
)

// How many reviews a second the API server is asked for, and how many at once beyond that: whoever guesses tokens must not
// keep it busy.
const (
	reviewsPerSecond = 20
	reviewsBurst     = 40
)

// Reviews authenticates and authorizes tokens with the API server. It implements access.Reviewer.
type Reviews struct {
	client *Client
	pace   flowcontrol.RateLimiter
}

// NewReviews returns Reviews by an API server. The client needs the permissions of ClusterRole system:auth-delegator.
func NewReviews(c *Client) *Reviews {
	return &Reviews{client: c, pace: flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewsBurst)}
}

// ReviewToken implements access.Reviewer.
func (r *Reviews) ReviewToken(ctx context.Context, token string) (access.User, bool, error) {
	if err := r.pace.Wait(ctx); err != nil {
		return access.User{}, false, fmt.Errorf("wait to review a token: %w", err)
	}
	var answer authenticationv1.TokenReview
	err := r.client.postJSON(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", &authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{access.Audience}},
	}, &answer)
	if err != nil {
		return access.User{}, false, fmt.Errorf("review a token: %w", err)
	}
	s := &answer.Status
	// An API server that knows nothing of audiences leaves them empty: whatever it takes is for itself.
	if !s.Authenticated || len(s.Audiences) == 0 {
		return access.User{}, false, nil
	}
	u := access.User{Name: s.User.Username, UID: s.User.UID, Groups: s.User.Groups, Extra: map[string][]string{}}
	for k, v := range s.User.Extra {
		u.Extra[k] = v
	}
	return u, true, nil
}

// ReviewAccess implements access.Reviewer.
func (r *Reviews) ReviewAccess(ctx context.Context, u access.User, verb, path string) (bool, error) {
	if err := r.pace.Wait(ctx); err != nil {
		return false, fmt.Errorf("wait to review access: %w", err)
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range u.Extra {
		extra[k] = v
	}
	var answer authorizationv1.SubjectAccessReview
	err := r.client.postJSON(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.Name, UID: u.UID, Groups: u.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
		},
	}, &answer)
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}

// postJSON posts an object of a kind that is not in the scheme, and reads the answer.
func (c *Client) postJSON(ctx context.Context, path string, object, answer any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode request to %s: %w", path, err)
	}
	raw, err := c.Core.Post().AbsPath(path).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("decode response of %s: %w", path, err)
	}
	return nil
}

// MakeServingCertificate creates a certificate and its key, in PEM, for this host's Service names and for loopback. It is
// valid for one year, and is not stored.
func MakeServingCertificate(namespace string) (certificate, key []byte, err error) {
	service := "dovetail." + namespace + ".svc"
	return cert.GenerateSelfSignedCertKey("dovetail", []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, []string{"localhost", service, service + ".cluster.local"})
}

// May reports whether this client has a permission.
func (c *Client) May(ctx context.Context, attributes *authorizationv1.ResourceAttributes) (bool, error) {
	var answer authorizationv1.SelfSubjectAccessReview
	err := c.postJSON(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, &answer)
	if err != nil {
		return false, fmt.Errorf("ask API server %s which rights this identity has: %w", c.Address, err)
	}
	return answer.Status.Allowed, nil
}
