// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// DefaultThrottleDelay is the pause after a throttled call whose answer does not say how long: EC2's buckets refill
// within seconds.
const DefaultThrottleDelay = time.Second

// Error codes of EC2 that callers act on one by one.
const (
	CodeTokenReused     = "IdempotentParameterMismatch"
	CodeDryRun          = "DryRunOperation"
	CodeInstanceUnknown = "InvalidInstanceID.NotFound"
	CodeInstanceBad     = "InvalidInstanceID.Malformed"
	CodeTemplateExists  = "InvalidLaunchTemplateName.AlreadyExistsException"
	CodeNoAddresses     = "InsufficientFreeAddressesInSubnet"
	CodeUnfulfillable   = "UnfulfillableCapacity"
)

// IsOutOfCapacity reports whether an error code of CreateFleet means that an offering can't be had now.
func IsOutOfCapacity(code string) bool {
	switch code {
	case "InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", CodeUnfulfillable, "Unsupported",
		CodeNoAddresses, "MaxFleetCountExceeded", "ReservationCapacityExceeded", "InsufficientHostCapacity",
		"InsufficientCapacityOnHost", "InstanceLimitExceeded", "SpotMaxPriceTooLow", "InsufficientCapacity",
		// Nobody may use spot in this account yet: as good as none to be had.
		"AuthFailure.ServiceLinkedRoleCreationNotPermitted":
		return true
	}
	return false
}

// IsTemplateNotFound reports whether an error code means that the launch template does not exist.
func IsTemplateNotFound(code string) bool {
	return strings.HasPrefix(code, "InvalidLaunchTemplateName.NotFound") || strings.HasPrefix(code, "InvalidLaunchTemplateId.NotFound")
}

// IsThrottled reports whether an error code of any service means that calls come too fast, and the same call may work
// later.
func IsThrottled(code string) bool {
	switch code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "EC2ThrottledException", "SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded",
		"RequestThrottledExceptionError", "ProvisionedThroughputExceededException", "TransactionInProgressException":
		return true
	}
	return false
}

// IsDenied reports whether an error code of any service means that the caller may not do this, or is not known.
func IsDenied(code string) bool {
	switch code {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "UnauthorizedAccess", "InvalidClientTokenId",
		"UnrecognizedClientException", "SignatureDoesNotMatch", "OptInRequired", "ExpiredToken", "ExpiredTokenException", "Blocked", "PendingVerification":
		return true
	}
	return false
}

// ErrorCode is the code with which a service answered a call; empty for nil, and for an error that is no answer.
func ErrorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// HadNoEffect reports whether an error is an answer that shows that the call has changed nothing, and never will. A lost
// reply, and an answer of 500 and above, may hide an effect.
func HadNoEffect(err error) bool {
	var res *smithyhttp.ResponseError
	return ErrorCode(err) != "" && errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// WasRejected reports whether an error, which has this code, shows that a request was refused for what it asks. One that
// was throttled or denied, or came too late, was not judged by what it asks, and any answer of 500 and above may hide
// an instance.
func WasRejected(err error, code string) bool {
	var res *smithyhttp.ResponseError
	return code != "" && !IsThrottled(code) && !IsDenied(code) && code != "RequestExpired" && !strings.HasPrefix(code, "RequestTimeout") &&
		errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// ClassifyError makes a cloud.Error of what a call answered: the kind by the error code, the operation and the object
// as named here. nil for nil. An error that has a kind keeps it. When the context has ended the kind is Unknown and
// the cause the context's error.
func ClassifyError(ctx context.Context, op, object string, err error) error {
	if err == nil {
		return nil
	}
	var known *cloud.Error
	if errors.As(err, &known) {
		named := *known
		named.Op, named.Object = op, object
		return &named
	}
	if ctx.Err() != nil {
		return &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: ctx.Err()}
	}
	out := &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: ReadableError(err)}
	switch code := ErrorCode(err); {
	case IsThrottled(code):
		out.Kind, out.After = cloud.Throttled, retryDelay(err)
	case IsDenied(code):
		out.Kind = cloud.Denied
	case code == CodeInstanceUnknown, code == CodeInstanceBad:
		out.Kind = cloud.NotFound
	}
	return out
}

// retryDelay is the pause that a throttled answer asks for, DefaultThrottleDelay when it does not say.
func retryDelay(err error) time.Duration {
	var res *smithyhttp.ResponseError
	if errors.As(err, &res) && res.HTTPResponse() != nil {
		h := res.HTTPResponse().Header
		if ms, err := strconv.ParseInt(h.Get("X-Amz-Retry-After"), 10, 64); err == nil && ms > 0 {
			return time.Duration(ms) * time.Millisecond
		}
		if s, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil && s > 0 {
			return time.Duration(s) * time.Second
		}
	}
	return DefaultThrottleDelay
}

// NotReadyError is a cloud.Error of kind NotReady: the caller is to wait until the object is mended, or becomes ready
// by itself.
func NotReadyError(op, object, format string, args ...any) error {
	return &cloud.Error{Kind: cloud.NotReady, Op: op, Object: object, Err: fmt.Errorf(format, args...)}
}

// ExplainDenied adds to the error of a call that was denied what has to be mended; what is the object of the call.
// Any other error is returned as it is.
func ExplainDenied(what string, err error) error {
	if IsDenied(ErrorCode(err)) {
		return &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("%s: %w; allow the call in the controller's IAM policy", what, ReadableError(err))}
	}
	return err
}

// ReadableError is an error of the SDK as a person wants to read it: the call, the code, and what the service says,
// without request ids. The error that it wraps is the given one; one that no service answered is returned as it is.
func ReadableError(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	name := api.ErrorCode()
	var op *smithy.OperationError
	if errors.As(err, &op) {
		name = op.Service() + " " + op.Operation() + ": " + name
	}
	return &summarizedError{fmt.Sprintf("%s: %s", name, api.ErrorMessage()), err}
}

// summarizedError is an error with a shorter text.
type summarizedError struct {
	text  string
	cause error
}

func (e *summarizedError) Error() string { return e.text }

func (e *summarizedError) Unwrap() error { return e.cause }

// UnresolvedError says that something which a node class names is not there, or is not as it should be, until a
// person mends it. Reason is the reason of a condition, Text its message.
type UnresolvedError struct{ Reason, Text string }

func (e *UnresolvedError) Error() string { return e.Text }

// NewUnresolvedError makes an UnresolvedError.
func NewUnresolvedError(reason, format string, args ...any) error {
	return &UnresolvedError{reason, fmt.Sprintf(format, args...)}
}
