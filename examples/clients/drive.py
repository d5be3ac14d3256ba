"""Turns a motor, reads its encoder and saves a picture.

    pip install viam-sdk
    python3 drive.py localhost:8080

For a machine that has keys: options = RobotClient.Options.with_api_key(api_key="…", api_key_id="…")
"""

import asyncio
import sys

from viam.components.camera import Camera
from viam.components.encoder import Encoder
from viam.components.motor import Motor
from viam.robot.client import RobotClient
from viam.rpc.dial import DialOptions


async def drive(address="localhost:8080", picture="picture.jpg"):
    options = RobotClient.Options(dial_options=DialOptions(insecure=True, disable_webrtc=True))
    robot = await RobotClient.at_address(address, options)
    try:
        motor = Motor.from_robot(robot, "motor1")
        encoder = Encoder.from_robot(robot, "encoder1")

        before, _ = await encoder.get_position()
        await motor.go_for(rpm=120, revolutions=2)
        after, _ = await encoder.get_position()
        print(f"the encoder counted {after - before:.0f} ticks")

        images, _ = await Camera.from_robot(robot, "camera1").get_images()
        with open(picture, "wb") as file:
            file.write(images[0].data)
        print(f"{picture}: {len(images[0].data)} bytes of {images[0].mime_type}")
    finally:
        await robot.close()


asyncio.run(drive(*sys.argv[1:]))
