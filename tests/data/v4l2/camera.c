/*
 * A camera in the place of the C library's calls, written against the kernel's own header: what v4l2.ts sends must
 * have the layout that the kernel reads. It is /dev/video7, gives YUYV, and is unplugged after UNPLUG_AFTER pictures.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WIDTH 64
#define HEIGHT 48
#define ROOM 65536
#define BUFFERS 8
#define UNPLUG_AFTER 6

static unsigned char *memory;
static int count, streaming, gone, taken, queue[BUFFERS], first, last;

static int fail(int number) {
  errno = number;
  return -1;
}

int open(const char *path, int flags, ...) {
  (void)flags;
  if (strcmp(path, "/dev/video7") != 0) return fail(ENOENT);
  int file = memfd_create("camera", MFD_CLOEXEC);
  if (ftruncate(file, BUFFERS * ROOM) != 0) return -1;
  memory = mmap(0, BUFFERS * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  count = streaming = gone = taken = first = last = 0;
  return file;
}

static int list(unsigned long request, void *data) {
  if (request == VIDIOC_ENUM_FMT) {
    struct v4l2_fmtdesc *format = data;
    if (format->type != V4L2_BUF_TYPE_VIDEO_CAPTURE || format->index > 0) return fail(EINVAL);
    format->pixelformat = V4L2_PIX_FMT_YUYV;
    return 0;
  }
  if (request == VIDIOC_ENUM_FRAMESIZES) {
    struct v4l2_frmsizeenum *size = data;
    if (size->pixel_format != V4L2_PIX_FMT_YUYV || size->index > 0) return fail(EINVAL);
    size->type = V4L2_FRMSIZE_TYPE_DISCRETE;
    size->discrete.width = WIDTH;
    size->discrete.height = HEIGHT;
    return 0;
  }
  struct v4l2_frmivalenum *rate = data;
  if (rate->width != WIDTH || rate->height != HEIGHT || rate->index > 1) return fail(EINVAL);
  rate->type = V4L2_FRMIVAL_TYPE_DISCRETE;
  rate->discrete.numerator = 2;
  rate->discrete.denominator = rate->index ? 60 : 15;
  return 0;
}

static int dequeue(struct v4l2_buffer *buffer) {
  if (!streaming || buffer->type != V4L2_BUF_TYPE_VIDEO_CAPTURE || buffer->memory != V4L2_MEMORY_MMAP) return fail(EINVAL);
  if (first == last) return fail(EAGAIN);
  buffer->index = queue[first++ % BUFFERS];
  buffer->bytesused = WIDTH * HEIGHT * 2;
  buffer->flags = 0;
  memset(memory + buffer->index * ROOM, 128, buffer->bytesused);
  memory[buffer->index * ROOM] = ++taken;
  return 0;
}

int ioctl(int file, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void *data = va_arg(rest, void *);
  va_end(rest);
  (void)file;
  if (gone) return fail(ENODEV);
  switch (request) {
    case VIDIOC_QUERYCAP: {
      struct v4l2_capability *able = data;
      strcpy((char *)able->card, "Camera of the tests");
      strcpy((char *)able->bus_info, "usb-test");
      able->capabilities = V4L2_CAP_DEVICE_CAPS | V4L2_CAP_META_CAPTURE;
      able->device_caps = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
      return 0;
    }
    case VIDIOC_ENUM_FMT:
    case VIDIOC_ENUM_FRAMESIZES:
    case VIDIOC_ENUM_FRAMEINTERVALS:
      return list(request, data);
    case VIDIOC_S_FMT: {
      struct v4l2_format *format = data;
      if (format->fmt.pix.pixelformat != V4L2_PIX_FMT_YUYV) return fail(EINVAL);
      format->fmt.pix.width = WIDTH;
      format->fmt.pix.height = HEIGHT;
      format->fmt.pix.bytesperline = WIDTH * 2;
      return 0;
    }
    case VIDIOC_S_PARM: {
      struct v4l2_streamparm *rate = data;
      struct v4l2_fract *time = &rate->parm.capture.timeperframe;
      rate->parm.capture.capability = V4L2_CAP_TIMEPERFRAME;
      if (time->denominator / time->numerator != 30) return fail(EINVAL);
      return 0;
    }
    case VIDIOC_REQBUFS: {
      struct v4l2_requestbuffers *asked = data;
      if (asked->memory != V4L2_MEMORY_MMAP || asked->type != V4L2_BUF_TYPE_VIDEO_CAPTURE) return fail(EINVAL);
      count = asked->count;
      return 0;
    }
    case VIDIOC_QUERYBUF: {
      struct v4l2_buffer *buffer = data;
      if ((int)buffer->index >= count) return fail(EINVAL);
      buffer->m.offset = buffer->index * ROOM;
      buffer->length = ROOM;
      return 0;
    }
    case VIDIOC_QBUF:
      queue[last++ % BUFFERS] = ((struct v4l2_buffer *)data)->index;
      return 0;
    case VIDIOC_DQBUF:
      return dequeue(data);
    case VIDIOC_STREAMON:
      streaming = 1;
      return 0;
    case VIDIOC_STREAMOFF:
      streaming = 0;
      return 0;
  }
  return fail(ENOTTY);
}

int poll(struct pollfd *asked, nfds_t files, int withinMs) {
  (void)files;
  (void)withinMs;
  gone = taken >= UNPLUG_AFTER;
  asked->revents = gone ? POLLERR : streaming && first != last ? POLLIN : 0;
  return asked->revents != 0;
}
