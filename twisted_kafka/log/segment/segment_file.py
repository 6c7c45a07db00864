"""The open file of a segment."""

import io


class SegmentFile(io.FileIO):
    """Closes itself when the last region that refers to it is gone."""

    def __del__(self) -> None:
        self.close()
