/**
 * Every model built into the machine. A new model is a file beside these and a line here.
 *
 * A line names the model as a configuration does. Its file is loaded when a configuration names the model, so that a
 * machine starts with the code of its own resources only.
 */

import { ArmApi } from "../lib/api/actuators/arm.ts";
import { AudioInApi } from "../lib/api/sensors/audio_in.ts";
import { AudioOutApi } from "../lib/api/actuators/audio_out.ts";
import { BaseApi } from "../lib/api/actuators/base.ts";
import { BaseRemoteControlApi } from "../lib/api/services/base_remote_control.ts";
import { BoardApi } from "../lib/api/actuators/board.ts";
import { ButtonApi } from "../lib/api/actuators/button.ts";
import { CameraApi } from "../lib/api/sensors/camera.ts";
import { DiscoveryApi } from "../lib/api/services/discovery.ts";
import { DataManagerApi } from "../lib/api/services/data_manager.ts";
import { EncoderApi } from "../lib/api/sensors/encoder.ts";
import { GantryApi } from "../lib/api/actuators/gantry.ts";
import { GenericApi } from "../lib/api/actuators/generic.ts";
import { GenericServiceApi } from "../lib/api/services/generic_service.ts";
import { GripperApi } from "../lib/api/actuators/gripper.ts";
import { InputControllerApi } from "../lib/api/sensors/input_controller.ts";
import { MlModelApi } from "../lib/api/services/ml_model.ts";
import { MotionApi } from "../lib/api/services/motion.ts";
import { MotorApi } from "../lib/api/actuators/motor.ts";
import { MovementSensorApi } from "../lib/api/sensors/movement_sensor.ts";
import { PowerSensorApi } from "../lib/api/sensors/power_sensor.ts";
import { SensorApi } from "../lib/api/sensors/sensor.ts";
import { ServoApi } from "../lib/api/actuators/servo.ts";
import { ShellApi } from "../lib/api/services/shell.ts";
import { SlamApi } from "../lib/api/services/slam.ts";
import { SwitchApi } from "../lib/api/actuators/switch.ts";
import { VideoApi } from "../lib/api/services/video.ts";
import { VisionApi } from "../lib/api/services/vision.ts";
import { WorldStateStoreApi } from "../lib/api/services/world_state_store.ts";
import { modelEntries, type ModelEntry } from "../lib/resource/registry.ts";

export const MODELS: readonly ModelEntry[] = [
  ...modelEntries(ArmApi, {
    fake: async () => (await import("./arm/fake.ts")).FakeArm,
    simulated: async () => (await import("./arm/simulated.ts")).SimulatedArm,
    wrapper_arm: async () => (await import("./arm/wrapper_arm.ts")).WrapperArm,
  }),
  ...modelEntries(AudioInApi, {
    fake: async () => (await import("./audio_in/fake.ts")).FakeAudioIn,
  }),
  ...modelEntries(AudioOutApi, {
    fake: async () => (await import("./audio_out/fake.ts")).FakeAudioOut,
  }),
  ...modelEntries(BaseApi, {
    fake: async () => (await import("./base/fake.ts")).FakeBase,
    "sensor-controlled": async () => (await import("./base/sensor_controlled.ts")).SensorControlledBase,
    wheeled: async () => (await import("./base/wheeled.ts")).WheeledBase,
  }),
  ...modelEntries(BaseRemoteControlApi, {
    builtin: async () => (await import("./base_remote_control/builtin.ts")).BuiltinBaseRemoteControl,
  }),
  ...modelEntries(BoardApi, {
    fake: async () => (await import("./board/fake.ts")).FakeBoard,
    linux: async () => (await import("./board/linux.ts")).LinuxBoard,
  }),
  ...modelEntries(ButtonApi, {
    fake: async () => (await import("./button/fake.ts")).FakeButton,
  }),
  ...modelEntries(CameraApi, {
    fake: async () => (await import("./camera/fake.ts")).FakeCamera,
    "svc:lidar:fake": async () => (await import("./camera/lidar/fake.ts")).FakeLidar,
    ffmpeg: async () => (await import("./camera/ffmpeg/ffmpeg.ts")).FfmpegCamera,
    transform: async () => (await import("./camera/transform/transform.ts")).TransformCamera,
    image_file: async () => (await import("./camera/image_file.ts")).ImageFileCamera,
    replay: async () => (await import("./camera/replay.ts")).ReplayCamera,
    "svc:lidar:replay": async () => (await import("./camera/lidar/replay.ts")).ReplayLidar,
    "svc:lidar:rplidar": async () => (await import("./camera/lidar/rplidar.ts")).RpLidar,
    webcam: async () => (await import("./camera/webcam.ts")).WebcamCamera,
  }),
  ...modelEntries(DiscoveryApi, {
    fake: async () => (await import("./discovery/fake.ts")).FakeDiscovery,
    linux: async () => (await import("./discovery/linux.ts")).LinuxDiscoveryModel,
    webcam: async () => (await import("./discovery/webcam.ts")).WebcamDiscoveryModel,
  }),
  ...modelEntries(DataManagerApi, {
    builtin: async () => (await import("./data_manager/builtin.ts")).BuiltinDataManager,
  }),
  ...modelEntries(EncoderApi, {
    fake: async () => (await import("./encoder/fake.ts")).FakeEncoder,
    incremental: async () => (await import("./encoder/incremental.ts")).IncrementalEncoder,
    single: async () => (await import("./encoder/single.ts")).SingleEncoder,
  }),
  ...modelEntries(GantryApi, {
    fake: async () => (await import("./gantry/fake.ts")).FakeGantry,
  }),
  ...modelEntries(GenericApi, {
    fake: async () => (await import("./generic/fake.ts")).FakeGeneric,
  }),
  ...modelEntries(GenericServiceApi, {
    fake: async () => (await import("./generic_service/fake.ts")).FakeGenericService,
  }),
  ...modelEntries(GripperApi, {
    fake: async () => (await import("./gripper/fake.ts")).FakeGripper,
  }),
  ...modelEntries(InputControllerApi, {
    fake: async () => (await import("./input_controller/fake.ts")).FakeInputController,
    gamepad: async () => (await import("./input_controller/gamepad.ts")).GamepadInputController,
    gpio: async () => (await import("./input_controller/gpio.ts")).GpioInputController,
    mux: async () => (await import("./input_controller/mux.ts")).MuxInputController,
    webgamepad: async () => (await import("./input_controller/webgamepad.ts")).WebgamepadInputController,
  }),
  ...modelEntries(MlModelApi, {
    fake: async () => (await import("./ml_model/fake.ts")).FakeMlModel,
    onnx_cpu: async () => (await import("./ml_model/onnx_cpu.ts")).OnnxCpuMlModel,
  }),
  ...modelEntries(MotionApi, {
    builtin: async () => (await import("./motion/builtin.ts")).BuiltinMotion,
  }),
  ...modelEntries(MotorApi, {
    fake: async () => (await import("./motor/fake.ts")).FakeMotor,
    gpio: async () => (await import("./motor/gpio.ts")).GpioMotor,
    gpiostepper: async () => (await import("./motor/gpio_stepper.ts")).GpioStepperMotor,
  }),
  ...modelEntries(MovementSensorApi, {
    fake: async () => (await import("./movement_sensor/fake.ts")).FakeMovementSensor,
    merged: async () => (await import("./movement_sensor/merged.ts")).MergedMovementSensor,
    "svc:odometry:replay": async () => (await import("./movement_sensor/replay.ts")).ReplayOdometry,
    "gps-nmea": async () => (await import("./movement_sensor/gps_nmea.ts")).GpsNmeaMovementSensor,
    mpu6050: async () => (await import("./movement_sensor/mpu6050.ts")).Mpu6050MovementSensor,
    "wheeled-odometry": async () => (await import("./movement_sensor/wheeled_odometry.ts")).WheeledOdometry,
  }),
  ...modelEntries(PowerSensorApi, {
    fake: async () => (await import("./power_sensor/fake.ts")).FakePowerSensor,
    ina219: async () => (await import("./power_sensor/ina219.ts")).Ina219PowerSensor,
  }),
  ...modelEntries(SensorApi, {
    fake: async () => (await import("./sensor/fake.ts")).FakeSensor,
    settable: async () => (await import("./sensor/settable.ts")).SettableSensor,
    "hc-sr04": async () => (await import("./sensor/hc_sr04.ts")).HcSr04Sensor,
  }),
  ...modelEntries(ServoApi, {
    fake: async () => (await import("./servo/fake.ts")).FakeServo,
    gpio: async () => (await import("./servo/gpio.ts")).GpioServo,
  }),
  ...modelEntries(ShellApi, {
    builtin: async () => (await import("./shell/builtin.ts")).BuiltinShell,
  }),
  ...modelEntries(SlamApi, {
    fake: async () => (await import("./slam/fake.ts")).FakeSlam,
    "svc:slam:cartographer": async () => (await import("./slam/mapper.ts")).MapperSlam,
  }),
  ...modelEntries(SwitchApi, {
    fake: async () => (await import("./switch/fake.ts")).FakeSwitch,
  }),
  ...modelEntries(VideoApi, {
    fake: async () => (await import("./video/fake.ts")).FakeVideo,
  }),
  ...modelEntries(VisionApi, {
    color_detector: async () => (await import("./vision/color_detector.ts")).ColorDetectorVision,
    fake: async () => (await import("./vision/fake.ts")).FakeVision,
    mlmodel: async () => (await import("./vision/mlmodel.ts")).MlModelVision,
    obstacles_depth: async () => (await import("./vision/obstacles_depth.ts")).ObstaclesDepthVision,
  }),
  ...modelEntries(WorldStateStoreApi, {
    fake: async () => (await import("./world_state_store/fake.ts")).FakeWorldStateStore,
  }),
];
