// Package client stands in for the package of this name in the published runtime, with its published signatures; it
// dials with the published library, as that package does.
package client

import (
	"context"

	robotpb "go.viam.com/api/robot/v1"
	"go.viam.com/rdk/logging"
	"go.viam.com/utils/rpc"
)

// RobotClient is a machine.
type RobotClient struct {
	conn rpc.ClientConn
}

// Name is the name of a resource.
type Name struct {
	Namespace, Type, Subtype, Name string
}

type options struct {
	dial []rpc.DialOption
}

// RobotClientOption configures New.
type RobotClientOption func(*options)

// WithDialOptions adds options of the dialer.
func WithDialOptions(opts ...rpc.DialOption) RobotClientOption {
	return func(all *options) { all.dial = append(all.dial, opts...) }
}

// New connects to a machine.
func New(ctx context.Context, address string, logger logging.Logger, opts ...RobotClientOption) (*RobotClient, error) {
	var all options
	for _, option := range opts {
		option(&all)
	}
	conn, err := rpc.Dial(ctx, address, logger, all.dial...)
	if err != nil {
		return nil, err
	}
	return &RobotClient{conn}, nil
}

// Conn is the connection, for the stand-ins of components.
func (c *RobotClient) Conn() rpc.ClientConn {
	return c.conn
}

// ResourceNames lists the resources; nil if the machine does not answer.
func (c *RobotClient) ResourceNames() []Name {
	listed, err := robotpb.NewRobotServiceClient(c.conn).ResourceNames(context.Background(), &robotpb.ResourceNamesRequest{})
	if err != nil {
		return nil
	}
	names := make([]Name, 0, len(listed.Resources))
	for _, one := range listed.Resources {
		names = append(names, Name{one.Namespace, one.Type, one.Subtype, one.Name})
	}
	return names
}

// Close ends the connection.
func (c *RobotClient) Close(_ context.Context) error {
	return c.conn.Close()
}
