/* Folders of series of files of ranks (rank_series.h), opened. */
#ifndef SW_CONVERT_RANK_FOLDER_H
#define SW_CONVERT_RANK_FOLDER_H

#include "framework.h"

SW_MUST_USE sw_status swi_rank_folder_open(swi_opening *o, sw_error *err);

#endif
