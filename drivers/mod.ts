/** Every model built into the machine. A new model is a file beside these and a line here. */

import type { AnyModel } from "../lib/resource/registry.ts";
import { FakeArm } from "./arm/fake.ts";
import { SimulatedArm } from "./arm/simulated.ts";
import { WrapperArm } from "./arm/wrapper_arm.ts";
import { FakeAudioIn } from "./audio_in/fake.ts";
import { FakeAudioOut } from "./audio_out/fake.ts";
import { FakeBase } from "./base/fake.ts";
import { SensorControlledBase } from "./base/sensor_controlled.ts";
import { WheeledBase } from "./base/wheeled.ts";
import { BuiltinBaseRemoteControl } from "./base_remote_control/builtin.ts";
import { FakeBoard } from "./board/fake.ts";
import { LinuxBoard } from "./board/linux.ts";
import { FakeButton } from "./button/fake.ts";
import { FakeCamera } from "./camera/fake.ts";
import { FfmpegCamera } from "./camera/ffmpeg/ffmpeg.ts";
import { TransformCamera } from "./camera/transform/transform.ts";
import { FakeLidar } from "./camera/lidar/fake.ts";
import { ImageFileCamera } from "./camera/image_file.ts";
import { ReplayCamera } from "./camera/replay.ts";
import { ReplayLidar } from "./camera/lidar/replay.ts";
import { RpLidar } from "./camera/lidar/rplidar.ts";
import { BuiltinDataManager } from "./data_manager/builtin.ts";
import { WebcamCamera } from "./camera/webcam.ts";
import { FakeDiscovery } from "./discovery/fake.ts";
import { LinuxDiscoveryModel } from "./discovery/linux.ts";
import { WebcamDiscoveryModel } from "./discovery/webcam.ts";
import { FakeEncoder } from "./encoder/fake.ts";
import { IncrementalEncoder } from "./encoder/incremental.ts";
import { SingleEncoder } from "./encoder/single.ts";
import { FakeGantry } from "./gantry/fake.ts";
import { FakeGeneric } from "./generic/fake.ts";
import { FakeGenericService } from "./generic_service/fake.ts";
import { FakeGripper } from "./gripper/fake.ts";
import { FakeInputController } from "./input_controller/fake.ts";
import { GamepadInputController } from "./input_controller/gamepad.ts";
import { GpioInputController } from "./input_controller/gpio.ts";
import { MuxInputController } from "./input_controller/mux.ts";
import { WebgamepadInputController } from "./input_controller/webgamepad.ts";
import { FakeMlModel } from "./ml_model/fake.ts";
import { OnnxCpuMlModel } from "./ml_model/onnx_cpu.ts";
import { BuiltinMotion } from "./motion/builtin.ts";
import { FakeMotor } from "./motor/fake.ts";
import { GpioStepperMotor } from "./motor/gpio_stepper.ts";
import { GpioMotor } from "./motor/gpio.ts";
import { FakeMovementSensor } from "./movement_sensor/fake.ts";
import { MergedMovementSensor } from "./movement_sensor/merged.ts";
import { ReplayOdometry } from "./movement_sensor/replay.ts";
import { GpsNmeaMovementSensor } from "./movement_sensor/gps_nmea.ts";
import { WheeledOdometry } from "./movement_sensor/wheeled_odometry.ts";
import { Mpu6050MovementSensor } from "./movement_sensor/mpu6050.ts";
import { FakePowerSensor } from "./power_sensor/fake.ts";
import { Ina219PowerSensor } from "./power_sensor/ina219.ts";
import { FakeSensor } from "./sensor/fake.ts";
import { SettableSensor } from "./sensor/settable.ts";
import { FakeServo } from "./servo/fake.ts";
import { BuiltinShell } from "./shell/builtin.ts";
import { HcSr04Sensor } from "./sensor/hc_sr04.ts";
import { GpioServo } from "./servo/gpio.ts";
import { FakeSlam } from "./slam/fake.ts";
import { MapperSlam } from "./slam/mapper.ts";
import { FakeSwitch } from "./switch/fake.ts";
import { FakeVideo } from "./video/fake.ts";
import { ColorDetectorVision } from "./vision/color_detector.ts";
import { FakeVision } from "./vision/fake.ts";
import { MlModelVision } from "./vision/mlmodel.ts";
import { ObstaclesDepthVision } from "./vision/obstacles_depth.ts";
import { FakeWorldStateStore } from "./world_state_store/fake.ts";

export const MODELS: readonly AnyModel[] = [
  FakeArm,
  SimulatedArm,
  WrapperArm,
  FakeAudioIn,
  FakeAudioOut,
  FakeBase,
  SensorControlledBase,
  WheeledBase,
  BuiltinBaseRemoteControl,
  FakeBoard,
  LinuxBoard,
  FakeButton,
  FakeCamera,
  FakeLidar,
  FfmpegCamera,
  TransformCamera,
  ImageFileCamera,
  ReplayCamera,
  ReplayLidar,
  RpLidar,
  WebcamCamera,
  FakeDiscovery,
  LinuxDiscoveryModel,
  WebcamDiscoveryModel,
  BuiltinDataManager,
  FakeEncoder,
  IncrementalEncoder,
  SingleEncoder,
  FakeGantry,
  FakeGeneric,
  FakeGenericService,
  FakeGripper,
  FakeInputController,
  GamepadInputController,
  GpioInputController,
  MuxInputController,
  WebgamepadInputController,
  FakeMlModel,
  OnnxCpuMlModel,
  BuiltinMotion,
  FakeMotor,
  GpioMotor,
  GpioStepperMotor,
  FakeMovementSensor,
  MergedMovementSensor,
  ReplayOdometry,
  GpsNmeaMovementSensor,
  Mpu6050MovementSensor,
  WheeledOdometry,
  FakePowerSensor,
  Ina219PowerSensor,
  FakeSensor,
  SettableSensor,
  FakeServo,
  BuiltinShell,
  HcSr04Sensor,
  GpioServo,
  FakeSlam,
  MapperSlam,
  FakeSwitch,
  FakeVideo,
  ColorDetectorVision,
  FakeVision,
  MlModelVision,
  ObstaclesDepthVision,
  FakeWorldStateStore,
];
