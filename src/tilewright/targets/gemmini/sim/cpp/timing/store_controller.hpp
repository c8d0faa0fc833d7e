// Takes move-out commands in order and hands their local rows to the DMA, one per cycle.
#pragma once

#include "../config.hpp"
#include "clock.hpp"
#include "completions.hpp"
#include "dma_writer.hpp"
#include "reservation_station.hpp"

namespace cosim {

class StoreController {
 public:
  StoreController(const Config& config, Clock& clock, Fifo<IssuedCommand>& commands,
                  CommandTracker& tracker, DmaWriter& writer);

  void tick() {
    if (!commands_.empty() && commands_.front().ready <= clock_.now) work();
  }

 private:
  void work();
  void send_row(const TimedCommand& command);

  const Config config_;
  Clock& clock_;
  Fifo<IssuedCommand>& commands_;
  CommandTracker& tracker_;
  DmaWriter& writer_;

  StoreConfig store_config_;
  bool is_moving_ = false;
  int tracked_ = 0;
  int row_ = 0;
  int block_ = 0;
};

}  // namespace cosim
