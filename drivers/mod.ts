/**
 * Every model built into the machine. A new one is a file beside these and a line here.
 */

import type { AnyModel } from "../lib/resource/registry.ts";
import { FakeArm } from "./arm/fake.ts";
import { FakeButton } from "./button/fake.ts";
import { FakeCamera } from "./camera/fake.ts";
import { ImageFileCamera } from "./camera/image_file.ts";
import { FakeGantry } from "./gantry/fake.ts";
import { FakeGeneric } from "./generic/fake.ts";
import { FakeGenericService } from "./generic_service/fake.ts";
import { FakeGripper } from "./gripper/fake.ts";
import { FakeInputController } from "./input_controller/fake.ts";
import { WebgamepadInputController } from "./input_controller/webgamepad.ts";
import { FakeMlModel } from "./ml_model/fake.ts";
import { FakeMovementSensor } from "./movement_sensor/fake.ts";
import { FakePowerSensor } from "./power_sensor/fake.ts";
import { FakeSensor } from "./sensor/fake.ts";
import { FakeServo } from "./servo/fake.ts";
import { FakeSlam } from "./slam/fake.ts";
import { FakeSwitch } from "./switch/fake.ts";
import { FakeVision } from "./vision/fake.ts";

export const MODELS: readonly AnyModel[] = [
  FakeArm,
  FakeButton,
  FakeCamera,
  ImageFileCamera,
  FakeGantry,
  FakeGeneric,
  FakeGenericService,
  FakeGripper,
  FakeInputController,
  WebgamepadInputController,
  FakeMlModel,
  FakeMovementSensor,
  FakePowerSensor,
  FakeSensor,
  FakeServo,
  FakeSlam,
  FakeSwitch,
  FakeVision,
];
