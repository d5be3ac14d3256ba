"""A tour of the example machine with the published Python SDK, over a direct connection or as it dials by default.

It prints one JSON object of what it saw; the test that started it judges.
Use: python_tour.py HOST:PORT [webrtc [KEY_ID KEY [tls]]]
"""

import asyncio
import json
import sys

from viam.components.arm import Arm, JointPositions
from viam.components.board import Board
from viam.components.camera import Camera
from viam.components.encoder import Encoder
from viam.components.motor import Motor
from viam.proto.common import Pose, PoseInFrame
from viam.robot.client import RobotClient
from viam.rpc.dial import DialOptions
from viam.services.motion import MotionClient
from viam.services.vision import VisionClient


def options():
    if len(sys.argv) > 4:
        found = RobotClient.Options.with_api_key(api_key=sys.argv[4], api_key_id=sys.argv[3])
        found.dial_options.insecure = "tls" not in sys.argv[5:]
        found.check_connection_interval = found.attempt_reconnect_interval = 0
        return found
    dial = DialOptions(insecure=True, disable_webrtc="webrtc" not in sys.argv)
    # The client gives a machine one second for its check of the connection, which a busy computer exceeds; it checks
    # until both intervals are 0. python_bonds.py plays lost connections.
    return RobotClient.Options(
        dial_options=dial, refresh_interval=0, check_connection_interval=0, attempt_reconnect_interval=0
    )


async def tour(address):
    seen = {}
    robot = await RobotClient.at_address(address, options())
    seen["resources"] = sorted(f"{name.subtype}/{name.name}" for name in robot.resource_names)
    version = await robot.get_version()
    seen["version"] = {
        "platform": version.platform,
        "version": version.version,
        "apiVersion": version.api_version,
    }
    status = await robot.get_machine_status()
    seen["machine"] = {
        "state": status.state,
        "unhealthy": sum(1 for one in status.resources if one.error),
    }

    arm = Arm.from_robot(robot, "arm1")
    joints = await arm.get_joint_positions()
    wanted = [10.0 + index for index in range(len(joints.values))]
    await arm.move_to_joint_positions(JointPositions(values=wanted))
    seen["joints"] = {"wanted": wanted, "found": list((await arm.get_joint_positions()).values)}
    start = await arm.get_end_position()
    goal = Pose()
    goal.CopyFrom(start)
    goal.x, goal.y, goal.z = start.x + 20, start.y - 10, start.z - 15
    await arm.move_to_position(goal)
    end = await arm.get_end_position()
    seen["armErrorMm"] = ((end.x - goal.x) ** 2 + (end.y - goal.y) ** 2 + (end.z - goal.z) ** 2) ** 0.5

    motion = MotionClient.from_robot(robot, "builtin")
    place = Pose(x=400, y=-100, z=500, o_z=-1)
    moved = await motion.move("camera1", PoseInFrame(reference_frame="world", pose=place))
    found = (await motion.get_pose("camera1", "world")).pose
    error = ((found.x - place.x) ** 2 + (found.y - place.y) ** 2 + (found.z - place.z) ** 2) ** 0.5
    seen["motion"] = {"moved": moved, "errorMm": error}

    motor = Motor.from_robot(robot, "motor1")
    encoder = Encoder.from_robot(robot, "encoder1")
    before, _ = await encoder.get_position()
    await motor.go_for(rpm=120, revolutions=0.5)
    after, _ = await encoder.get_position()
    seen["encoder"] = {"before": before, "after": after}
    await motor.set_power(0.5)
    on, pct = await motor.is_powered()
    seen["power"] = {"on": on, "pct": pct}

    board = Board.from_robot(robot, "board1")
    pin = await board.gpio_pin_by_name("20")
    await pin.set(True)
    seen["gpio"] = await pin.get()
    interrupt = await board.digital_interrupt_by_name("encoder-a")
    ticks = []
    async for tick in await board.stream_ticks([interrupt]):
        if tick.pin_name == "encoder-a":
            ticks.append({"high": tick.high, "time": str(tick.time)})
        if len(ticks) == 3:
            break
    seen["ticks"] = ticks

    camera = Camera.from_robot(robot, "camera1")
    images, metadata = await camera.get_images()
    seen["images"] = [
        {"sourceName": one.name, "mimeType": str(one.mime_type), "bytes": len(one.data)} for one in images
    ]
    seen["capturedAt"] = metadata.HasField("captured_at")
    cloud, _ = await camera.get_point_cloud()
    seen["pointCloudBytes"] = len(cloud)

    vision = VisionClient.from_robot(robot, "vision1")
    seen["detections"] = len(await vision.get_detections_from_camera("camera1"))

    await robot.stop_all()
    seen["stopped"] = not await motor.is_moving()
    await robot.close()

    robot = await RobotClient.at_address(address, options())
    seen["again"] = len(robot.resource_names)
    await robot.close()
    return seen


print(json.dumps(asyncio.run(tour(sys.argv[1]))))
