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

// DefaultThrottleDelay is the delay after a throttled call whose response has none: EC2's token buckets refill within
// seconds.
const DefaultThrottleDelay = time.Second

// EC2 error codes that callers handle individually.
const (
	CodeTokenReused     = "IdempotentParameterMismatch"
	CodeDryRun          = "DryRunOperation"
	CodeInstanceUnknown = "InvalidInstanceID.NotFound"
	CodeInstanceBad     = "InvalidInstanceID.Malformed"
	CodeTemplateExists  = "InvalidLaunchTemplateName.AlreadyExistsException"
	CodeNoAddresses     = "InsufficientFreeAddressesInSubnet"
	CodeUnfulfillable   = "UnfulfillableCapacity"
)

// IsOutOfCapacity reports whether an error code of CreateFleet means that an offering has no capacity now.
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

// IsThrottled reports whether an error code of any service means that requests are throttled, and a retry may succeed.
func IsThrottled(code string) bool {
	switch code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "EC2ThrottledException", "SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded",
		"RequestThrottledExceptionError", "ProvisionedThroughputExceededException", "TransactionInProgressException":
		return true
	}
	return false
}

// IsDenied reports whether an error code of any service means that the caller is not authorized or not authenticated.
func IsDenied(code string) bool {
	switch code {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "UnauthorizedAccess", "InvalidClientTokenId",
		"UnrecognizedClientException", "SignatureDoesNotMatch", "OptInRequired", "ExpiredToken", "ExpiredTokenException", "Blocked", "PendingVerification":
		return true
	}
	return false
}

// ErrorCode returns the error code of a service's response; empty for nil, and for an error without a response.
func ErrorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// HadNoEffect reports whether an error is a response which shows that the request has had no effect and never will.
// After a lost response, or a status of 500 and above, it may have had one.
func HadNoEffect(err error) bool {
	var res *smithyhttp.ResponseError
	return ErrorCode(err) != "" && errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// WasRejected reports whether an error with this code shows that a request was rejected because of its content. This
// excludes throttled, denied and late requests, and any status of 500 and above, after which an instance may exist.
func WasRejected(err error, code string) bool {
	var res *smithyhttp.ResponseError
	return code != "" && !IsThrottled(code) && !IsDenied(code) && code != "RequestExpired" && !strings.HasPrefix(code, "RequestTimeout") &&
		errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// ClassifyError returns a cloud.Error for the error of a call: the kind by the error code, with the given operation and
// object. It returns nil for nil, and errors that already have a kind unchanged. If the context has ended, the kind is
// Unknown and the cause is the context's error.
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

// retryDelay returns the delay requested by a throttled response, DefaultThrottleDelay if it has none.
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

// NotReadyError returns a cloud.Error of kind NotReady: the caller waits until the object is corrected or becomes ready.
func NotReadyError(op, object, format string, args ...any) error {
	return &cloud.Error{Kind: cloud.NotReady, Op: op, Object: object, Err: fmt.Errorf(format, args...)}
}

// ExplainDenied adds the remedy to the error of a denied call; what is the object of the call. Other errors are returned
// unchanged.
func ExplainDenied(what string, err error) error {
	if IsDenied(ErrorCode(err)) {
		return &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("%s: %w; allow the call in the controller's IAM policy", what, ReadableError(err))}
	}
	return err
}

// ReadableError returns a readable form of an SDK error: the call, the code and the message of the service, without
// request IDs. It wraps the given error. Errors without a response are returned unchanged.
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

// UnresolvedError means that an object named by a node class is missing or invalid until a user corrects it. Reason is
// the reason of a condition, Text its message.
type UnresolvedError struct{ Reason, Text string }

func (e *UnresolvedError) Error() string { return e.Text }

// NewUnresolvedError returns an UnresolvedError.
func NewUnresolvedError(reason, format string, args ...any) error {
	return &UnresolvedError{reason, fmt.Sprintf(format, args...)}
}
