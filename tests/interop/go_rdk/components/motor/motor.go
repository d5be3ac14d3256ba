// Package motor stands in for the package of this name in the published runtime.
package motor

import (
	"context"

	motorpb "go.viam.com/api/component/motor/v1"
	"go.viam.com/rdk/robot/client"
	"google.golang.org/protobuf/types/known/structpb"
)

// Motor is the part of the published interface that the test calls.
type Motor interface {
	GoFor(ctx context.Context, rpm, revolutions float64, extra map[string]interface{}) error
}

type remote struct {
	name   string
	client motorpb.MotorServiceClient
}

// FromProvider is the motor of this name.
func FromProvider(machine *client.RobotClient, name string) (Motor, error) {
	return &remote{name, motorpb.NewMotorServiceClient(machine.Conn())}, nil
}

func (m *remote) GoFor(ctx context.Context, rpm, revolutions float64, extra map[string]interface{}) error {
	fields, err := structpb.NewStruct(extra)
	if err != nil {
		return err
	}
	_, err = m.client.GoFor(ctx, &motorpb.GoForRequest{Name: m.name, Rpm: rpm, Revolutions: revolutions, Extra: fields})
	return err
}
