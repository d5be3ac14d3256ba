/**
 * The library for modules in TypeScript: everything that a module imports, for Deno and Node.
 *
 * The room owns the module's side of the published module protocol: it serves models, builds their resources when the
 * machine asks for them, and reaches the machine for dependencies and for its log.
 */

export { type Made, model, type ModuleConstruction, type ModuleModel } from "./model.ts";
export { ownApi, type OwnApiParts, type OwnMessage, type OwnResource } from "./own_api.ts";
export { type ModuleOptions, type RunningModule, serveModule, startModule } from "./program.ts";

export { type Code, SvcError } from "../base/error.ts";
export type { Clock } from "../base/clock.ts";
export type { Logger } from "../base/log/log.ts";
export {
  any,
  anyObject,
  bool,
  choice,
  duration,
  integer,
  type Json,
  type JsonObject,
  list,
  mapOf,
  number,
  object,
  text,
} from "../base/schema/schema.ts";
export { Operation } from "../resource/operation.ts";
export { ResourceName } from "../resource/name.ts";
export type { Api, Dependencies } from "../resource/registry.ts";
export {
  type Actuator,
  BaseComponent,
  BaseResource,
  type Call,
  type Component,
  type Resource,
  unsupported,
} from "../resource/resource.ts";

export { type Arm, ArmApi } from "../api/arm.ts";
export { type AudioChunk, type AudioIn, AudioInApi, type AudioRequest } from "../api/audio_in.ts";
export { type AudioOut, AudioOutApi } from "../api/audio_out.ts";
export { type Base, BaseApi } from "../api/base.ts";
export { type Board, BoardApi } from "../api/board.ts";
export { type Button, ButtonApi } from "../api/button.ts";
export { type Camera, CameraApi, type NamedImage } from "../api/camera.ts";
export { type Discovery, DiscoveryApi } from "../api/discovery.ts";
export { type Encoder, EncoderApi } from "../api/encoder.ts";
export { type Gantry, GantryApi } from "../api/gantry.ts";
export { GenericApi } from "../api/generic.ts";
export { GenericServiceApi } from "../api/generic_service.ts";
export { type Gripper, GripperApi } from "../api/gripper.ts";
export { type InputController, InputControllerApi } from "../api/input_controller.ts";
export { type MlModel, MlModelApi } from "../api/ml_model.ts";
export { type Motion, MotionApi } from "../api/motion.ts";
export { type Motor, MotorApi } from "../api/motor.ts";
export { type MovementSensor, MovementSensorApi } from "../api/movement_sensor.ts";
export { type PowerSensor, PowerSensorApi } from "../api/power_sensor.ts";
export { type Sensor, SensorApi } from "../api/sensor.ts";
export { type Servo, ServoApi } from "../api/servo.ts";
export { type Slam, SlamApi } from "../api/slam.ts";
export { type Switch, SwitchApi } from "../api/switch.ts";
export { type Video, VideoApi, type VideoPart, type VideoSpan } from "../api/video.ts";
export { type Detection, type Vision, VisionApi } from "../api/vision.ts";
export {
  type TransformChange,
  type WorldStateStore,
  WorldStateStoreApi,
  type WorldTransform,
} from "../api/world_state_store.ts";

export { type ColorImage, decodeColor } from "../geometry/image/image.ts";
export { encodePng, type PngImage } from "../geometry/image/png.ts";

export { ResourceClient, resourceHandlers } from "../api/shared/resource.ts";
export { type Channel, client } from "../wire/rpc/channel.ts";
export type { DescService } from "../wire/rpc/proto.ts";
export { service } from "../wire/rpc/service.ts";
