/** The calls of published services that move something, and so belong to a session. */

/** The methods of each published service that belong to a session. */
export const SESSION_METHODS: Readonly<Record<string, readonly string[]>> = {
  "viam.component.arm.v1.ArmService": [
    ...["MoveToPosition", "MoveToJointPositions", "MoveThroughJointPositions"],
    "MoveThroughJointPositionsStreamed",
  ],
  "viam.component.base.v1.BaseService": ["MoveStraight", "Spin", "SetPower", "SetVelocity"],
  "viam.component.button.v1.ButtonService": ["Push"],
  "viam.component.gantry.v1.GantryService": ["MoveToPosition"],
  "viam.component.gripper.v1.GripperService": ["Open", "Grab", "GoToInputs"],
  "viam.component.motor.v1.MotorService": ["SetPower", "GoFor", "GoTo", "SetRPM"],
  "viam.component.servo.v1.ServoService": ["Move"],
  "viam.component.switch.v1.SwitchService": ["SetPosition"],
};
