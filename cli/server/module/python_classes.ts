/**
 * The resource types of the published Python library, for stubs: the abstract methods of each class.
 *
 * Generated from the library by tests/interop/python_classes.py; tests/interop/python_classes_test.ts holds it against
 * the library, and with --update writes it anew.
 */

/** For each type: its API, module and class; the imports of its methods; their first lines. */
export const PYTHON_CLASSES = `
rdk:component:arm viam.components.arm.arm Arm
from typing import Any, AsyncIterator, Mapping
from viam.gen.common.v1.common_pb2 import KinematicModel, Mesh, Pose
from viam.gen.component.arm.v1.arm_pb2 import GetPropertiesResponse, JointPositions, MoveOptions
async def get_3d_models(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Mapping[str, Mesh]:
async def get_end_position(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Pose:
async def get_joint_positions(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> JointPositions:
async def get_kinematics(self, *, include_collision_meshes: bool = False, include_visual_meshes: bool = False, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[int, bytes] | tuple[int, bytes, Mapping[str, Mesh]] | tuple[int, bytes, Mapping[str, Mesh], KinematicModel]:
async def get_manual_mode(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> bool:
async def get_properties(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> GetPropertiesResponse:
async def is_moving(self) -> bool:
async def move_through_joint_positions(self, positions: list[JointPositions], options: MoveOptions | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def move_through_joint_positions_streamed(self, batches: AsyncIterator[list[Arm.TrajectoryPoint]], *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> AsyncIterator[Arm.TrajectoryUpdate]:
async def move_to_joint_positions(self, positions: JointPositions, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def move_to_position(self, pose: Pose, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def set_manual_mode(self, manual_mode: bool, enabled_for: int = 0, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def stop(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:audio_in viam.components.audio_in.audio_in AudioIn
from viam.gen.common.v1.common_pb2 import GetPropertiesResponse
from viam.gen.component.audioin.v1.audioin_pb2 import GetAudioResponse
from viam.streams import Stream
async def get_audio(self, codec: str, duration_seconds: float, previous_timestamp_ns: int, *, timeout: float | None = None, **kwargs) -> Stream[GetAudioResponse]:
async def get_properties(self, *, timeout: float | None = None, **kwargs) -> GetPropertiesResponse:

rdk:component:audio_out viam.components.audio_out.audio_out AudioOut
from typing import Any, AsyncIterable
from viam.gen.common.v1.common_pb2 import AudioInfo, GetPropertiesResponse
async def get_properties(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> GetPropertiesResponse:
async def play(self, data: bytes, info: AudioInfo | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def play_stream(self, info: AudioInfo, chunks: AsyncIterable[bytes], *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:base viam.components.base.base Base
from typing import Any
from viam.gen.common.v1.common_pb2 import Vector3
async def get_properties(self, *, timeout: float | None = None, **kwargs) -> Base.Properties:
async def is_moving(self) -> bool:
async def move_straight(self, distance: int, velocity: float, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def set_power(self, linear: Vector3, angular: Vector3, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def set_velocity(self, linear: Vector3, angular: Vector3, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def spin(self, angle: float, velocity: float, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def stop(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:board viam.components.board.board Board
from datetime import timedelta
from typing import Any
from viam.gen.component.board.v1.board_pb2 import StreamTicksResponse
from viam.streams import Stream
async def analog_by_name(self, name: str) -> Board.Analog:
async def digital_interrupt_by_name(self, name: str) -> Board.DigitalInterrupt:
async def gpio_pin_by_name(self, name: str) -> Board.GPIOPin:
async def set_power_mode(self, mode: int, duration: timedelta | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def stream_ticks(self, interrupts: list[Board.DigitalInterrupt], *, timeout: float | None = None, **kwargs) -> Stream[StreamTicksResponse]:

rdk:component:button viam.components.button.button Button
from typing import Any, Mapping
async def push(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:camera viam.components.camera.camera Camera
from typing import Any, Sequence
from viam.gen.common.v1.common_pb2 import ResponseMetadata
from viam.gen.component.camera.v1.camera_pb2 import GetPropertiesResponse
from viam.media.video import NamedImage
async def get_images(self, *, filter_source_names: Sequence[str] | None = None, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[Sequence[NamedImage], ResponseMetadata]:
async def get_point_cloud(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[bytes, str]:
async def get_properties(self, *, timeout: float | None = None, **kwargs) -> GetPropertiesResponse:

rdk:component:encoder viam.components.encoder.encoder Encoder
from typing import Any
async def get_position(self, position_type: int | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[float, int]:
async def get_properties(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Encoder.Properties:
async def reset_position(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:gantry viam.components.gantry.gantry Gantry
from typing import Any, Mapping
from viam.gen.common.v1.common_pb2 import KinematicModel, Mesh
async def get_kinematics(self, *, include_collision_meshes: bool = False, include_visual_meshes: bool = False, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[int, bytes] | tuple[int, bytes, Mapping[str, Mesh]] | tuple[int, bytes, Mapping[str, Mesh], KinematicModel]:
async def get_lengths(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> list[float]:
async def get_position(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> list[float]:
async def home(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> bool:
async def is_moving(self) -> bool:
async def move_to_position(self, positions: list[float], speeds: list[float], *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def stop(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:generic viam.components.generic.generic Generic

rdk:component:gripper viam.components.gripper.gripper Gripper
from typing import Any, Mapping
from viam.gen.common.v1.common_pb2 import KinematicModel, Mesh
async def get_current_inputs(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> list[float]:
async def get_kinematics(self, *, include_collision_meshes: bool = False, include_visual_meshes: bool = False, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[int, bytes] | tuple[int, bytes, Mapping[str, Mesh]] | tuple[int, bytes, Mapping[str, Mesh], KinematicModel]:
async def go_to_inputs(self, values: list[float], *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def grab(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> bool:
async def is_holding_something(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Gripper.HoldingStatus:
async def is_moving(self) -> bool:
async def open(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def stop(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:input_controller viam.components.input.input Controller
from typing import Any, Callable
from viam.components.input.input import Control, Event, EventType
async def get_controls(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> list[Control]:
async def get_events(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> dict[Control, Event]:
def register_control_callback(self, control: Control, triggers: list[EventType], function: Callable[[Event], None] | None, *, extra: dict[str, Any] | None = None, **kwargs) -> None:

rdk:component:motor viam.components.motor.motor Motor
from typing import Any
async def get_position(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> float:
async def get_properties(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Motor.Properties:
async def go_for(self, rpm: float, revolutions: float, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def go_to(self, rpm: float, position_revolutions: float, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def is_moving(self) -> bool:
async def is_powered(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[bool, float]:
async def reset_zero_position(self, offset: float, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def set_power(self, power: float, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def set_rpm(self, rpm: float, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def stop(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:movement_sensor viam.components.movement_sensor.movement_sensor MovementSensor
from typing import Any
from viam.gen.common.v1.common_pb2 import GeoPoint, Orientation, Vector3
from viam.gen.component.movementsensor.v1.movementsensor_pb2 import GetAccuracyResponse
async def get_accuracy(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> GetAccuracyResponse:
async def get_angular_velocity(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Vector3:
async def get_compass_heading(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> float:
async def get_linear_acceleration(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Vector3:
async def get_linear_velocity(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Vector3:
async def get_orientation(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Orientation:
async def get_position(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[GeoPoint, float]:
async def get_properties(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> MovementSensor.Properties:

rdk:component:pose_tracker viam.components.pose_tracker.pose_tracker PoseTracker
from typing import Any, Mapping
from viam.gen.common.v1.common_pb2 import PoseInFrame
async def get_poses(self, body_names: list[str], *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> dict[str, PoseInFrame]:

rdk:component:power_sensor viam.components.power_sensor.power_sensor PowerSensor
from typing import Any
async def get_current(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[float, bool]:
async def get_power(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> float:
async def get_voltage(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[float, bool]:

rdk:component:sensor viam.components.sensor.sensor Sensor
from typing import Any, Mapping
async def get_readings(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Mapping[str, Any]:

rdk:component:servo viam.components.servo.servo Servo
from typing import Any, Mapping
async def get_position(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> int:
async def is_moving(self) -> bool:
async def move(self, angle: int, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def stop(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:component:switch viam.components.switch.switch Switch
from typing import Any, Mapping, Sequence
async def get_number_of_positions(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> tuple[int, Sequence[str]]:
async def get_position(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> int:
async def set_position(self, position: int, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:

rdk:service:discovery viam.services.discovery.discovery Discovery
from typing import Any, Mapping
from viam.gen.app.v1.robot_pb2 import ComponentConfig
async def discover_resources(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[ComponentConfig]:

rdk:service:generic viam.services.generic.generic Generic

rdk:service:mlmodel viam.services.mlmodel.mlmodel MLModel
from numpy import dtype, ndarray
from typing import Any, Mapping
from viam.gen.service.mlmodel.v1.mlmodel_pb2 import Metadata
async def infer(self, input_tensors: dict[str, ndarray[tuple[Any, ...], dtype[Any]]], *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> dict[str, ndarray[tuple[Any, ...], dtype[Any]]]:
async def metadata(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> Metadata:

rdk:service:motion viam.services.motion.motion Motion
from typing import Any, Mapping, Sequence
from viam.gen.common.v1.common_pb2 import GeoGeometry, GeoPoint, Geometry, Pose, PoseInFrame, Transform, WorldState
from viam.gen.service.motion.v1.motion_pb2 import Constraints, GetPlanResponse, MotionConfiguration, PlanStatusWithID
async def get_plan(self, component_name: str, last_plan_only: bool = False, execution_id: str | None = None, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> GetPlanResponse:
async def get_pose(self, component_name: str, destination_frame: str, supplemental_transforms: Sequence[Transform] | None = None, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> PoseInFrame:
async def list_plan_statuses(self, only_active_plans: bool = False, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> Sequence[PlanStatusWithID]:
async def move(self, component_name: str, destination: PoseInFrame, world_state: WorldState | None = None, constraints: Constraints | None = None, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> bool:
async def move_on_globe(self, component_name: str, destination: GeoPoint, movement_sensor_name: str, obstacles: Sequence[GeoGeometry] | None = None, heading: float | None = None, configuration: MotionConfiguration | None = None, *, bounding_regions: Sequence[GeoGeometry] | None = None, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> str:
async def move_on_map(self, component_name: str, destination: Pose, slam_service_name: str, configuration: MotionConfiguration | None = None, obstacles: Sequence[Geometry] | None = None, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> str:
async def stop_plan(self, component_name: str, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> None:

rdk:service:navigation viam.services.navigation.navigation Navigation
from typing import Any
from viam.gen.service.navigation.v1.navigation_pb2 import GetCostmapResponse, Location, Plan, Position, Properties, Route, Status, Waypoint, Zone
async def add_location(self, location_name: str, position: Position | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Location:
async def add_route(self, route_name: str, waypoints: list[Waypoint] | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Route:
async def add_zone(self, zone_name: str, type: str, geometry: dict[str, Any], max_speed: float | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Zone:
async def cancel(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def delete_location(self, location_name: str, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def delete_route(self, route_name: str, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def delete_zone(self, zone_name: str, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> None:
async def execute_plan(self, plan: Plan, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def get_costmap(self, layer: str = '', stride: int = 0, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> GetCostmapResponse:
async def get_location(self, location_name: str, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Location:
async def get_navigation_status(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def get_position(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Position:
async def get_properties(self, *, timeout: float | None = None, **kwargs) -> Properties:
async def get_route(self, route_name: str, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Route:
async def get_zone(self, zone_name: str, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Zone:
async def go_to_location(self, location_name: str, wait: bool | None = None, linear_m_per_sec: float | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def go_to_point(self, destination: Position, wait: bool | None = None, linear_m_per_sec: float | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def list_locations(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> list[Location]:
async def list_routes(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> list[Route]:
async def list_zones(self, type: str | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> list[Zone]:
async def navigate_route(self, route_name: str | None = None, waypoints: list[Waypoint] | None = None, start_index: int = 0, start_nearest: bool = False, loop: bool = False, wait: bool = False, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def navigate_to_location(self, location_name: str, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def navigate_to_point(self, destination: Position, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def plan_to_location(self, location_name: str, start: Position | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Plan:
async def plan_to_point(self, destination: Position, start: Position | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Plan:
async def resume(self, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def suspend(self, reason: str = '', *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Status:
async def update_location(self, location_name: str, position: Position | None = None, new_name: str | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Location:
async def update_route(self, route_name: str, new_name: str | None = None, waypoints: list[Waypoint] | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Route:
async def update_zone(self, zone_name: str, type: str | None = None, geometry: dict[str, Any] | None = None, max_speed: float | None = None, new_name: str | None = None, *, extra: dict[str, Any] | None = None, timeout: float | None = None, **kwargs) -> Zone:

rdk:service:slam viam.services.slam.slam SLAM
from viam.gen.common.v1.common_pb2 import Pose
from viam.gen.service.slam.v1.slam_pb2 import GetPropertiesResponse
async def get_internal_state(self, *, timeout: float | None) -> list[bytes]:
async def get_point_cloud_map(self, return_edited_map: bool = False, *, timeout: float | None) -> list[bytes]:
async def get_position(self, *, timeout: float | None) -> Pose:
async def get_properties(self, *, timeout: float | None) -> GetPropertiesResponse:

rdk:service:vision viam.services.vision.vision Vision
from typing import Any, Mapping
from viam.gen.common.v1.common_pb2 import PointCloudObject
from viam.gen.service.vision.v1.vision_pb2 import Classification, Detection, Detection3D, GetPropertiesResponse
from viam.media.video import ViamImage
from viam.services.vision.vision import CaptureAllResult
async def capture_all_from_camera(self, camera_name: str, return_image: bool = False, return_classifications: bool = False, return_detections: bool = False, return_object_point_clouds: bool = False, return_detections_3d: bool = False, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> CaptureAllResult:
async def get_classifications(self, image: ViamImage, count: int, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[Classification]:
async def get_classifications_from_camera(self, camera_name: str, count: int, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[Classification]:
async def get_detections(self, image: ViamImage, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[Detection]:
async def get_detections_3d(self, camera_name: str, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[Detection3D]:
async def get_detections_from_camera(self, camera_name: str, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[Detection]:
async def get_object_point_clouds(self, camera_name: str, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[PointCloudObject]:
async def get_properties(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> GetPropertiesResponse:

rdk:service:world_state_store viam.services.worldstatestore.worldstatestore WorldStateStore
from typing import Any, AsyncGenerator, Mapping
from viam.gen.common.v1.common_pb2 import Transform
from viam.gen.service.worldstatestore.v1.world_state_store_pb2 import StreamTransformChangesResponse
async def get_transform(self, uuid: bytes, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> Transform:
async def list_uuids(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> list[bytes]:
async def stream_transform_changes(self, *, extra: Mapping[str, Any] | None = None, timeout: float | None = None) -> AsyncGenerator[StreamTransformChangesResponse, None]:

`;
