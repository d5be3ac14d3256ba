/**
 * The library for modules in TypeScript: everything that a module imports, for Deno and Node.
 *
 * The room owns the module's side of the published module protocol: it serves models, builds their resources when the
 * machine asks for them, and reaches the machine for dependencies and for its log.
 */

export {
  type AnyModuleModel,
  type Made,
  model,
  type ModuleConstruction,
  type ModuleModel,
  type Usual,
} from "./model.ts";
export { ownApi, type OwnApiParts, type OwnMessage, type OwnResource } from "./own_api.ts";
export { type ModuleOptions, type RunningModule, serveModule, startModule } from "./program.ts";

export { type Code, SvcError } from "../base/error.ts";
export type { Clock } from "../base/clock.ts";
export type { Fields as LogFields, LazyFields, Level, Logger } from "../base/log/log.ts";
export {
  any,
  anyObject,
  bool,
  choice,
  type ConfigField,
  type DecodeContext,
  duration,
  type Infer,
  integer,
  type Json,
  type JsonObject,
  list,
  mapOf,
  number,
  type NumberRange,
  object,
  type Shape as ObjectShape,
  text,
} from "../base/schema/schema.ts";
export { Operation } from "../resource/operation.ts";
export { ResourceName } from "../resource/name.ts";
export type {
  CaptureCall,
  CaptureMethods,
  CaptureResult,
  Facets,
  ReadJoints,
  TakenFile,
} from "../resource/facets.ts";
export type { FrameView, Scene } from "../resource/frame_view.ts";
export type { CapturedAnnotations, CapturedBox } from "../resource/uploader.ts";
export type { AnyApi, Api, Dependencies } from "../resource/registry.ts";
export {
  type Actuator,
  BaseComponent,
  BaseResource,
  type Call,
  type Component,
  type Resource,
  unsupported,
} from "../resource/resource.ts";

export {
  type Arm,
  ArmApi,
  type ArmProperties,
  type MoveOptions,
  type TrajectoryPoint,
} from "../api/actuators/arm.ts";
export { type AudioChunk, type AudioIn, AudioInApi, type AudioRequest } from "../api/sensors/audio_in.ts";
export { type AudioOut, AudioOutApi } from "../api/actuators/audio_out.ts";
export { type Base, BaseApi, type BaseProperties } from "../api/actuators/base.ts";
export {
  type AnalogReading,
  type Board,
  BoardApi,
  type PowerMode,
  type Tick,
} from "../api/actuators/board.ts";
export { type Button, ButtonApi } from "../api/actuators/button.ts";
export {
  type Camera,
  CameraApi,
  type CameraProperties,
  type Extrinsics,
  type Images,
} from "../api/sensors/camera.ts";
export type { Annotations, NamedImage } from "../api/shared/capture.ts";
export {
  type Discovered,
  type DiscoveredParts,
  type Discovery,
  DiscoveryApi,
} from "../api/services/discovery.ts";
export {
  type Encoder,
  EncoderApi,
  type EncoderPosition,
  type EncoderProperties,
  type PositionType,
} from "../api/sensors/encoder.ts";
export { type Gantry, GantryApi } from "../api/actuators/gantry.ts";
export { GenericApi } from "../api/actuators/generic.ts";
export { GenericServiceApi } from "../api/services/generic_service.ts";
export { type Gripper, GripperApi, type HoldingStatus } from "../api/actuators/gripper.ts";
export {
  type EventFilter,
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../api/sensors/input_controller.ts";
export {
  type AssociatedFile,
  type MlMetadata,
  type MlModel,
  MlModelApi,
  type Tensor,
  type TensorData,
  type TensorInfo,
  type Tensors,
} from "../api/services/ml_model.ts";
export {
  type Constraints as MotionConstraints,
  type GeoGeometry,
  type GlobeMovement,
  type MapMovement,
  type Motion,
  MotionApi,
  type MotionConfiguration,
  type Movement,
  type PlanHistory,
  type PlanQuery,
  type PlanState,
  type PlanStatus,
  type PlanStatusOf,
  type PlanWithStatus,
  type WorldState,
} from "../api/services/motion.ts";
export { type Motor, MotorApi, type MotorProperties } from "../api/actuators/motor.ts";
export {
  type Accuracy,
  type MovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
} from "../api/sensors/movement_sensor.ts";
export { type PowerSensor, PowerSensorApi } from "../api/sensors/power_sensor.ts";
export { type Sensor, SensorApi } from "../api/sensors/sensor.ts";
export { type Servo, ServoApi } from "../api/actuators/servo.ts";
export {
  type MappingModeName,
  type SensorTypeName,
  type Slam,
  SlamApi,
  type SlamPosition,
  type SlamProperties,
} from "../api/services/slam.ts";
export { type Switch, SwitchApi } from "../api/actuators/switch.ts";
export { type Video, VideoApi, type VideoPart, type VideoSpan } from "../api/services/video.ts";
export {
  type Box,
  type Capture as VisionCapture,
  type Classification,
  type Detection,
  type Detection3D,
  type EncodedImage,
  type PointCloudObject,
  type Vision,
  VisionApi,
  type VisionProperties,
  type Wanted as VisionWanted,
} from "../api/services/vision.ts";
export {
  type TransformChange,
  type WorldObject,
  type WorldStateStore,
  WorldStateStoreApi,
  type WorldTransform,
} from "../api/services/world_state_store.ts";

export type { AudioFormat, AudioProperties } from "../api/shared/audio.ts";
export type { Kinematics, Mesh } from "../api/shared/kinematics.ts";
export type { GeoPoint, Readings } from "../api/shared/readings.ts";

export type { OrientationVector, Pose, Quaternion, RigidTransform, Vec3 } from "../geometry/pose.ts";
export type { FramePart, FrameSystem, PoseInFrame } from "../geometry/frame_system.ts";
export type { Geometry, GeometryShape } from "../geometry/geometry.ts";
export type { Joint, JointDrive, KinematicModel, ModelFrame } from "../geometry/kinematics.ts";
export { type ColorImage, decodeColor } from "../geometry/image/image.ts";
export type { Distortion, Intrinsics } from "../geometry/image/lens.ts";
export { encodePng, type PngImage } from "../geometry/image/png.ts";

export {
  type Named,
  ResourceClient,
  type ResourceHandlers,
  resourceHandlers,
} from "../api/shared/resource.ts";
export {
  type CallOptions,
  type Channel,
  client,
  type ClientMethod,
  type ServiceClient,
} from "../wire/rpc/channel.ts";
export type { Metadata } from "../wire/rpc/metadata.ts";
export type {
  DescMessage,
  DescMethod,
  DescService,
  Message,
  MessageInitShape,
  MessageShape,
} from "../wire/rpc/proto.ts";
export {
  type AnyHandler,
  type Awaitable,
  type CallContext,
  type Handler,
  type MethodOf,
  type Peer,
  type Service,
  service,
  type ServiceImpl,
} from "../wire/rpc/service.ts";
